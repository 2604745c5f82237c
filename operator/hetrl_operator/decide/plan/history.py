"""Plans of the past: which are kept, what is written on them, and which go.

Only plans that were made for the job are kept or deleted. On somebody else's is written that it is
in force, and that is taken off again.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hetrl_operator.decide.plan.active_plan import made_for
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
from hetrl_operator.model.observed import JobSeen, Observed, ParsedSpec, PlanSeen
from hetrl_operator.model.reasons import ReplanOutcome

if TYPE_CHECKING:
    from datetime import datetime

LIMIT = 2
"""Plans of the past that are kept where spec.planning.historyLimit is unset: the last one, and what
that took the place of."""

MOST_CHARACTERS = 1024
"""Of why a plan was replaced."""


def follow(
    seen: Observed, parsed: ParsedSpec, known: PlanSeen, now: "datetime", *, runs: bool
) -> tuple[Action, ...]:
    """Write down that a job follows a plan, and put its others away.

    Args:
        seen: the job.
        parsed: its spec.
        known: the plan.
        now: the time.
        runs: whether its GPUs are the job's; else it is only there to be looked at, or waits.
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
    """Make plans past ones, and delete the oldest of these that are too many.

    Args:
        seen: the job.
        parsed: its spec.
        plans: those that it followed until now; others' are left alone.
        now: the time.
        why: what is written on them, unless the other plan or the status says more of it.
        by: the plan that it follows from now on, if there is one yet.
    """
    ours = made_for(seen.job, seen.plans)
    leaving = [each for each in made_for(seen.job, plans) if not each.is_past]
    past = [each for each in ours if each.is_past and each.name != parsed.written.planning.plan_ref]
    # The newest first: those that are put away now come before all others.
    past.sort(key=lambda each: (each.replaced_at or now, each.name), reverse=True)
    limit = parsed.written.planning.history_limit
    most = LIMIT if limit is None else limit
    kept, dropped = leaving[:most], [*leaving[most:], *past[max(0, most - len(leaving)) :]]
    return (
        *(_archived(each, now, _why(seen.job, each, by) or why) for each in kept),
        *(_deletion(each) for each in dropped),
    )


def clear(seen: Observed) -> tuple[Action, ...]:
    """Take off somebody else's plans that they are in force: the job is about to go."""
    return _unmarked(seen, but=None)


def free_name(seen: Observed, key: str) -> str:
    """Return a name for a plan that no plan of the job has: what was asked before may come back."""
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
    """Return what was decided about a plan's place, as far as that is written somewhere."""
    # The other plan first: it is there, while a list may be older than the status. Not one that
    # is gone back to: what it says is of the first time.
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
