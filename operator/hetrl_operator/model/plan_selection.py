"""The selection of a job's active plan and of its manual plan among the existing plans.

``auto`` and ``manual`` decide what to do with them.
"""

from collections.abc import Iterable

from hetrl_api.job.planning import PlanningMode
from hetrl_operator.model.observed import JobSeen
from hetrl_operator.model.planning import PlanSeen, UnreadablePlan

Found = PlanSeen | UnreadablePlan


def active_plan(job: JobSeen, plans: Iterable[PlanSeen]) -> PlanSeen | None:
    """Return the plan that a job follows, or will start with.

    It is the newest plan that was made for the job and is not archived. A user's plan, or an
    archived plan that the job returns to, is active once the status names it, which is after its
    GPUs are reserved.
    """
    plans = tuple(plans)
    known = job.status.plan.name if job.status.plan else ""
    followed = next((each for each in plans if each.name == known), None)
    made = newest(each for each in made_for(job, plans) if not each.is_past)
    if has_manual_plan(job):
        return followed or made
    if made is None and followed and followed.made_for != job.uid:
        # A job that was Manual keeps its plan until there is another.
        return followed
    return made


def newest(plans: Iterable[PlanSeen]) -> PlanSeen | None:
    """Return the newest plan: the one that no other replaces, as times are whole seconds.

    If two plans replace each other, as after a name was used again, the times decide.
    """
    plans = tuple(plans)
    replaced = {each.replaces for each in plans}
    last = [each for each in plans if each.name not in replaced]
    return max(last or plans, key=lambda each: (each.created_at, each.name), default=None)


def made_for(job: JobSeen, plans: Iterable[PlanSeen]) -> tuple[PlanSeen, ...]:
    """Return the plans that the operator made for a job, and may delete."""
    return tuple(each for each in plans if each.made_for == job.uid)


def has_manual_plan(job: JobSeen) -> bool:
    """Tell whether a job is in mode Manual and names its plan."""
    return job.parsed is not None and job.parsed.written.planning.mode is PlanningMode.MANUAL


def named(job: JobSeen, plans: Iterable[Found]) -> Found | None:
    """Return the plan that a job names; None if it names none, or the plan does not exist."""
    if job.parsed is None or not has_manual_plan(job):
        return None
    name = job.parsed.written.planning.plan_ref
    return next((each for each in plans if each.name == name), None)


def validation_id(manual_plan: Found | None) -> str:
    """Return the identity of the request to validate a plan; empty if it cannot be validated."""
    return (
        f"given/{manual_plan.name}/{manual_plan.uid}" if isinstance(manual_plan, PlanSeen) else ""
    )


def readable(plans: Iterable[Found]) -> tuple[PlanSeen, ...]:
    """Return the readable plans."""
    return tuple(each for each in plans if isinstance(each, PlanSeen))
