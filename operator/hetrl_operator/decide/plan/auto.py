"""Planning of a job: its active plan, or the actions that lead to one."""

from dataclasses import replace
from typing import TYPE_CHECKING

from hetrl_api.job.planning import PlanningMode
from hetrl_api.job.status import PlanStatus
from hetrl_core.plan.capabilities import obstacles
from hetrl_core.plan.plan import Infeasible, Plan
from hetrl_operator.decide.plan import history, manual
from hetrl_operator.decide.plan.drift import drift, next_search_at
from hetrl_operator.decide.plan.next_step import (
    Choose,
    Follow,
    Refuse,
    Retry,
    Start,
    Wait,
    next_step,
)
from hetrl_operator.decide.plan.planned import Planned, not_yet, ready, refusal, retry_later
from hetrl_operator.decide.plan.replan import replan
from hetrl_operator.model.actions import Action, Apply, ReleaseGpus, ReserveGpus, StartPlanning
from hetrl_operator.model.conditions import Finding
from hetrl_operator.model.kueue.queueing import waits
from hetrl_operator.model.observed import Observed, ParsedSpec
from hetrl_operator.model.plan_selection import has_manual_plan
from hetrl_operator.model.planning import PlanSeen
from hetrl_operator.model.reasons import Reason
from hetrl_operator.render import plan_manifest

if TYPE_CHECKING:
    from datetime import datetime


def planned(seen: Observed, parsed: ParsedSpec, now: "datetime") -> Planned:
    """Return the plan that a job follows, or the actions that lead to one."""
    if has_manual_plan(seen.job):
        return manual.planned(seen, parsed, now)
    known = seen.active_plan
    if known and known.planned_for != seen.planning.spec_key and not seen.pods:
        # No pod uses it any more: the job was changed while it was suspended.
        why = "the planning fields of the job changed"
        return _search(
            seen, parsed, now, cleaning=history.archive(seen, parsed, (known,), now, why=why)
        )
    if known is None:
        return _search(seen, parsed, now, cleaning=())
    only, unreserved = _is_only_planned(parsed), waits(seen.job, seen.queueing)
    runs = seen.planning.is_reserved and not only and not unreserved
    cleaning = history.follow(seen, parsed, known, now, runs=runs)
    if only:
        return Planned(plan=known, finding=_noted(ready(known), parsed), actions=cleaning)
    if unreserved:
        return _unreserved(seen, parsed, known, cleaning, now)
    if not seen.planning.is_reserved:
        return _reserve(seen, parsed, known, cleaning, now)
    kept = Planned(plan=known, finding=_noted(ready(known), parsed), actions=cleaning)
    cause = drift(seen, known, now)
    if cause:
        return replan(seen, parsed, kept, cause, now)
    search_at = next_search_at(seen.job, known, seen.fleet, now)
    left = (search_at - now).total_seconds() if search_at else None
    return replace(kept, wake_after_seconds=left)


def is_about_to_follow(seen: Observed, parsed: ParsedSpec, now: "datetime") -> bool:
    """Tell whether a plan is there to follow, or cannot be searched for yet.

    A job that fits nowhere is not checked: the search needs the model's dimensions alone.
    """
    if seen.active_plan or has_manual_plan(seen.job) or parsed.spec.model.architecture is None:
        return True
    return isinstance(next_step(seen, "", now), Follow)


def plan_status(plan: PlanSeen) -> PlanStatus:
    """Return the status's summary of a plan."""
    prediction = plan.plan.prediction
    return PlanStatus(
        name=plan.name,
        hash=plan.key,
        strategy=plan.plan.strategy,
        predicted_step_seconds=round(prediction.step_seconds, 3),
        samples_per_second=round(prediction.samples_per_second, 3),
        dollars_per_hour=round(prediction.dollars_per_hour, 2),
        bottleneck=prediction.bottleneck[:1024],
        gap_ratio=None if plan.plan.gap is None else round(plan.plan.gap, 4),
    )


def _is_only_planned(parsed: ParsedSpec) -> bool:
    return parsed.written.planning.mode is PlanningMode.PLAN_ONLY


def _noted(finding: Finding, parsed: ParsedSpec) -> Finding:
    """Add where the dimensions come from, if they are neither the job's nor read by a preflight."""
    if not parsed.dimensions_origin:
        return finding
    return replace(finding, message=f"{finding.message}; {parsed.dimensions_origin}")


def _unreserved(
    seen: Observed,
    parsed: ParsedSpec,
    known: PlanSeen,
    cleaning: tuple[Action, ...],
    now: "datetime",
) -> Planned:
    """Keep the plan of a job that waits in its queue, unless its machines are gone."""
    if seen.planning.conflict:
        return _lost(seen, parsed, known, now, why="its machines are not there any more")
    return Planned(plan=known, finding=_noted(ready(known), parsed), actions=cleaning)


def _reserve(
    seen: Observed,
    parsed: ParsedSpec,
    known: PlanSeen,
    cleaning: tuple[Action, ...],
    now: "datetime",
) -> Planned:
    """Reserve the plan's GPUs again, as after a resume; search again if they are taken."""
    if seen.planning.conflict and not seen.pods:
        return _lost(seen, parsed, known, now, why="its GPUs went to another job meanwhile")
    return Planned(
        plan=known,
        finding=_noted(ready(known), parsed),
        actions=(*cleaning, ReserveGpus(plan=known.plan)),
    )


def _lost(
    seen: Observed, parsed: ParsedSpec, known: PlanSeen, now: "datetime", *, why: str
) -> Planned:
    """Archive a plan that cannot be reserved, and say what it lacks."""
    return Planned(
        plan=None,
        finding=not_yet(Reason.PLANNING, seen.planning.conflict),
        actions=history.archive(seen, parsed, (known,), now, why=why),
    )


def _search(
    seen: Observed, parsed: ParsedSpec, now: "datetime", *, cleaning: tuple[Action, ...]
) -> Planned:
    """Search for a first plan; the plans that the job followed before are archived meanwhile."""
    planning = seen.planning
    running = not_yet(Reason.PLANNING, "a plan is being made")
    match next_step(seen, "", now):
        case Start() | Choose():
            # Only a running job has alternatives, so these answer another request. The
            # reservation of an earlier plan is released, unless pods use it.
            free = (ReleaseGpus(),) if planning.is_reserved and not seen.pods else ()
            start = StartPlanning(unreserved=waits(seen.job, seen.queueing))
            return Planned(plan=None, finding=running, actions=(*cleaning, *free, start))
        case Wait():
            return Planned(plan=None, finding=running)
        case Follow(plan):
            return _commit(seen, parsed, plan, cleaning)
        case Refuse(no_plan):
            finding = _noted(refusal(no_plan), parsed)
            return Planned(plan=None, finding=finding, actions=cleaning)
        case Retry() as failed:
            return retry_later(failed, cleaning)


def _commit(
    seen: Observed, parsed: ParsedSpec, plan: Plan, cleaning: tuple[Action, ...]
) -> Planned:
    """Reserve the GPUs, then write the plan; the next reconcile continues with it."""
    impossible = obstacles(plan, parsed.spec)
    if impossible:
        finding = refusal(Infeasible(reasons=impossible))
        return Planned(plan=None, finding=finding, actions=cleaning)
    waiting = _is_only_planned(parsed) or waits(seen.job, seen.queueing)
    manifest = plan_manifest(
        seen.job,
        plan,
        key=seen.planning.answer_key,
        spec_key=seen.planning.spec_key,
        left_out=seen.planning.left_out,
        fleet=seen.planning.answer_fleet,
        name=history.free_name(seen, seen.planning.answer_key),
        is_active=not waiting,
    )
    reserve = () if waiting else (ReserveGpus(plan=plan),)
    return Planned(
        plan=None,
        # The message stays: the plan is announced when its object exists.
        finding=not_yet(Reason.PLANNING, "a plan is being made"),
        actions=(*cleaning, *reserve, Apply(manifest=manifest)),
    )
