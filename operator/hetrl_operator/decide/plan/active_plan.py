"""Which of the plans that there are a job follows, and which one it names.

What is to follow from that is left to ``plans``, and for a plan that is named to ``manual_plan``.
"""

from collections.abc import Iterable

from hetrl_api.job.planning import PlanningMode
from hetrl_operator.model.observed import JobSeen, PlanSeen, UnreadablePlan

Found = PlanSeen | UnreadablePlan


def active_plan(job: JobSeen, plans: Iterable[PlanSeen]) -> PlanSeen | None:
    """Return the plan that a job follows, or is to be started by.

    Of the plans that were made for it, that is the newest one that is not past. A plan that
    somebody else wrote, or that is gone back to, is followed from when the status says so: that is
    written once its GPUs are the job's.
    """
    plans = tuple(plans)
    known = job.status.plan.name if job.status.plan else ""
    followed = next((each for each in plans if each.name == known), None)
    made = newest(each for each in made_for(job, plans) if not each.is_past)
    if has_manual_plan(job):
        return followed or made
    if made is None and followed and followed.made_for != job.uid:
        # A job that was Manual goes on by its plan until there is another.
        return followed
    return made


def newest(plans: Iterable[PlanSeen]) -> PlanSeen | None:
    """Return the plan that was made last: times are whole seconds, so they alone do not tell.

    Two that replace each other, as where a name comes back, are told by their times after all.
    """
    plans = tuple(plans)
    replaced = {each.replaces for each in plans}
    last = [each for each in plans if each.name not in replaced]
    return max(last or plans, key=lambda each: (each.created_at, each.name), default=None)


def made_for(job: JobSeen, plans: Iterable[PlanSeen]) -> tuple[PlanSeen, ...]:
    """Return the plans that are ours to delete."""
    return tuple(each for each in plans if each.made_for == job.uid)


def has_manual_plan(job: JobSeen) -> bool:
    """Tell whether a job runs by a plan that it names."""
    return job.parsed is not None and job.parsed.written.planning.mode is PlanningMode.MANUAL


def named(job: JobSeen, plans: Iterable[Found]) -> Found | None:
    """Return the plan that a job names; None where it names none, or there is none."""
    if job.parsed is None or not has_manual_plan(job):
        return None
    name = job.parsed.written.planning.plan_ref
    return next((each for each in plans if each.name == name), None)


def base_of(manual_plan: Found | None) -> str:
    """Return what the planner's word on a plan is about; empty where there is none to look at."""
    return (
        f"given/{manual_plan.name}/{manual_plan.uid}" if isinstance(manual_plan, PlanSeen) else ""
    )


def readable(plans: Iterable[Found]) -> tuple[PlanSeen, ...]:
    """Return the plans that mean something."""
    return tuple(each for each in plans if isinstance(each, PlanSeen))


def unreadable(plans: Iterable[Found]) -> tuple[UnreadablePlan, ...]:
    """Return those that do not."""
    return tuple(each for each in plans if isinstance(each, UnreadablePlan))
