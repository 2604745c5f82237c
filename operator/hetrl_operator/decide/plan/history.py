"""A job's previous plans: which are archived, with which annotations, and which are deleted.

Only plans that were made for the job are archived or deleted. A user's plan only gets an annotation
while it is active.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hetrl_operator.model.actions import Action, AnnotatePlan, Delete
from hetrl_operator.model.labels import (
    ACTIVE_FOR,
    ANSWERED,
    MOST_NAMESAKES,
    PLANNED_FOR,
    REPLACED_AT,
    REPLACED_BECAUSE,
    REPLACES_BECAUSE,
    plan_name,
)
from hetrl_operator.model.observed import JobSeen, Observed, ParsedSpec
from hetrl_operator.model.plan_selection import made_for
from hetrl_operator.model.planning import PlanSeen
from hetrl_operator.model.reasons import ReplanOutcome

if TYPE_CHECKING:
    from datetime import datetime

LIMIT = 2
"""Archived plans that are kept if spec.planning.historyLimit is unset: the last two."""

MOST_CHARACTERS = 1024
"""Limit of the annotation with the reason for a plan's replacement."""


def follow(
    seen: Observed, parsed: ParsedSpec, known: PlanSeen, now: "datetime", *, runs: bool
) -> tuple[Action, ...]:
    """Mark the plan that a job follows, and archive its others.

    Args:
        seen: the job.
        parsed: its spec.
        known: the plan.
        now: the time.
        runs: whether its GPUs are reserved; else the job is only planned, or waits in a queue.
    """
    others = [
        each
        for each in made_for(seen.job, seen.plans)
        if each.uid != known.uid and not each.is_past
    ]
    return (
        *_marked(seen.job, known, runs=runs),
        *_unmarked(seen, but=known),
        *archive(seen, parsed, others, now, why=f"{known.name} took its place", by=known),
    )


def archive(
    seen: Observed,
    parsed: ParsedSpec,
    plans: Iterable[PlanSeen],
    now: "datetime",
    *,
    why: str,
    by: PlanSeen | None = None,
) -> tuple[Action, ...]:
    """Archive plans, and delete the oldest archived ones above the limit.

    Args:
        seen: the job.
        parsed: its spec.
        plans: the plans that it followed until now; users' plans are left alone.
        now: the time.
        why: the annotated reason, unless the new plan or the status has a better one.
        by: the plan that it follows from now on, if it exists yet.
    """
    ours = made_for(seen.job, seen.plans)
    leaving = [each for each in made_for(seen.job, plans) if not each.is_past]
    past = [each for each in ours if each.is_past and each.name != parsed.written.planning.plan_ref]
    # The newest first: plans that are archived now come before all others.
    past.sort(key=lambda each: (each.replaced_at or now, each.name), reverse=True)
    limit = parsed.written.planning.history_limit
    most = LIMIT if limit is None else limit
    kept, dropped = leaving[:most], [*leaving[most:], *past[max(0, most - len(leaving)) :]]
    return (
        *(_archived(each, now, _why(seen.job, each, by) or why) for each in kept),
        *(_deletion(each) for each in dropped),
    )


def clear(seen: Observed) -> tuple[Action, ...]:
    """Remove the active annotation from users' plans, before the job is deleted."""
    return _unmarked(seen, but=None)


def free_name(seen: Observed, key: str) -> str:
    """Return an unused name for a plan: earlier inputs, and so their name, may come back."""
    taken = {each.name for each in seen.plans}
    names = (plan_name(seen.job.name, key, each) for each in range(1, MOST_NAMESAKES + 1))
    return next(each for each in names if each not in taken)


def _marked(job: JobSeen, known: PlanSeen, *, runs: bool) -> tuple[AnnotatePlan, ...]:
    changes: dict[str, str | None] = {}
    if known.made_for == job.uid and known.is_past:
        changes = {PLANNED_FOR: known.planned_for}
        gone = (ANSWERED, REPLACED_AT, REPLACED_BECAUSE, REPLACES_BECAUSE)
        changes |= dict.fromkeys(gone)
    if runs and known.active_for != job.name:
        changes[ACTIVE_FOR] = job.name
    return (_annotated(known, changes),) if changes else ()


def _unmarked(seen: Observed, *, but: PlanSeen | None) -> tuple[AnnotatePlan, ...]:
    return tuple(
        _annotated(each, {ACTIVE_FOR: None})
        for each in seen.plans
        if each.made_for != seen.job.uid
        and each.active_for == seen.job.name
        and (but is None or each.uid != but.uid)
    )


def _why(job: JobSeen, plan: PlanSeen, by: PlanSeen | None) -> str:
    """Return the recorded reason for a plan's replacement; empty if there is none."""
    # The new plan comes first: a listed status may be older. A plan that the job returns to is
    # skipped, since its reason is of the first time.
    if by and not by.is_past and by.replaces == plan.name and by.replaces_because:
        return by.replaces_because
    last = job.status.last_replan
    if last and last.plan == plan.name and last.outcome == ReplanOutcome.ADOPTED:
        return f"{last.reason}: {last.message}"
    return ""


def _archived(plan: PlanSeen, now: "datetime", why: str) -> AnnotatePlan:
    changes: dict[str, str | None] = {
        PLANNED_FOR: None,
        ANSWERED: plan.planned_for,
        ACTIVE_FOR: None,
        REPLACED_AT: now.replace(microsecond=0).isoformat(),
        REPLACED_BECAUSE: why[:MOST_CHARACTERS],
    }
    return _annotated(plan, changes)


def _annotated(plan: PlanSeen, changes: dict[str, str | None]) -> AnnotatePlan:
    return AnnotatePlan(name=plan.name, uid=plan.uid, annotations=changes)


def _deletion(plan: PlanSeen) -> Delete:
    why = "spec.planning.historyLimit plans of the past are kept"
    return Delete(kind="HetRLPlan", name=plan.name, uid=plan.uid, why=why)
