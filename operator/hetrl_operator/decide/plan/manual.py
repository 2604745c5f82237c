"""Planning of a job in mode Manual: it runs by the plan that it names, without a search.

The planner's processes validate the plan first. The job keeps its active plan in any case: problems
are reported, and its owner may name another plan.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from hetrl_core.plan.plan import Infeasible, Plan
from hetrl_operator.decide.kueue.queueing import waits
from hetrl_operator.decide.plan import history
from hetrl_operator.decide.plan.active_plan import active_plan, base_of, named
from hetrl_operator.decide.plan.backoff import backoff
from hetrl_operator.decide.plan.drift import drift
from hetrl_operator.decide.plan.planned import Planned, not_yet, ready, refusal
from hetrl_operator.decide.plan.replan import move_to
from hetrl_operator.model.actions import Action, ReleaseGpus, ReserveGpus, StartPlanning
from hetrl_operator.model.conditions import Finding
from hetrl_operator.model.observed import (
    FleetSeen,
    InsufficientFreeGpus,
    Observed,
    ParsedSpec,
    PlannerError,
    PlanSeen,
    UnreadablePlan,
)
from hetrl_operator.model.reasons import Reason

if TYPE_CHECKING:
    from datetime import datetime

_VALIDATING = "the plan is being validated"


def planned(seen: Observed, parsed: ParsedSpec, now: "datetime") -> Planned:
    """Return the plan that a Manual job follows, or the actions that lead to the one it names."""
    current = active_plan(seen.job, seen.plans)
    if current and seen.pods:
        return _running(seen, parsed, current, now)
    return _starting(seen, parsed, now)


def _starting(seen: Observed, parsed: ParsedSpec, now: "datetime") -> Planned:
    """Validate the plan before any pod uses it, and reserve its GPUs."""
    manual_plan = named(seen.job, (*seen.plans, *seen.unreadable))
    if not isinstance(manual_plan, PlanSeen):
        reason, text = _missing(parsed, manual_plan)
        return Planned(plan=None, finding=not_yet(reason, text), actions=_released(seen))
    if _is_validating(seen, manual_plan):
        return Planned(plan=None, finding=not_yet(Reason.PLANNING, _VALIDATING))
    planning, unreserved = seen.planning, waits(seen.job, seen.queueing)
    match planning.answer if planning.answer_base == base_of(manual_plan) else None:
        case Plan() if unreserved or planning.holds_manual_plan:
            actions = history.follow(seen, parsed, manual_plan, now, runs=not unreserved)
            return Planned(plan=manual_plan, finding=ready(manual_plan), actions=actions)
        case Plan():
            reserve = ReserveGpus(plan=manual_plan.plan)
            return Planned(
                plan=None, finding=not_yet(Reason.PLANNING, _VALIDATING), actions=(reserve,)
            )
        case Infeasible() | InsufficientFreeGpus() as no_plan if (
            planning.answer_key == planning.key
        ):
            finding = _refused(manual_plan, no_plan)
            return Planned(plan=None, finding=finding, actions=_released(seen))
        case PlannerError() as error if wait := backoff(seen, now):
            text = f"{error.message}; {wait}"
            return Planned(
                plan=None,
                finding=not_yet(error.reason, text),
                wake_after_seconds=wait.left_seconds,
            )
        case _:
            start = start_validation(seen, manual_plan, current=None, unreserved=unreserved)
            return Planned(
                plan=None,
                finding=not_yet(Reason.PLANNING, _VALIDATING),
                actions=(*_released(seen), start),
            )


def _running(seen: Observed, parsed: ParsedSpec, current: PlanSeen, now: "datetime") -> Planned:
    kept = Planned(
        plan=current,
        finding=ready(current),
        actions=history.follow(seen, parsed, current, now, runs=True),
    )
    manual_plan = named(seen.job, (*seen.plans, *seen.unreadable))
    is_followed = manual_plan is not None and manual_plan.uid == current.uid
    # The reservation may be of another plan that was named only for a moment.
    if not seen.planning.is_reserved or (is_followed and not seen.planning.holds_manual_plan):
        return replace(kept, actions=(*kept.actions, ReserveGpus(plan=current.plan)))
    if not isinstance(manual_plan, PlanSeen):
        _, text = _missing(parsed, manual_plan)
        return replace(kept, drift=f"{text}; until then the job goes on by {current.name}")
    if manual_plan.uid == current.uid:
        return _doubted(seen, kept, manual_plan, now)
    found = move_to(
        seen,
        parsed,
        kept,
        manual_plan,
        now,
        validation=start_validation(seen, manual_plan, current=current, unreserved=False),
    )
    if found.plan is manual_plan:
        actions = history.follow(seen, parsed, manual_plan, now, runs=True)
        return replace(found, actions=actions)
    return found


def _doubted(seen: Observed, kept: Planned, manual_plan: PlanSeen, now: "datetime") -> Planned:
    """Report why the plan should be replaced; validate it again after a change of the spec."""
    found = drift(
        seen.job,
        manual_plan,
        # Neither a changed spec nor a changed fleet requires another plan in this mode.
        spec_key=manual_plan.planned_for,
        nodes=seen.nodes,
        fleet=FleetSeen(),
        now=now,
    )
    planning = seen.planning
    keeps = "spec.planning.mode Manual keeps the plan"
    if found:
        return replace(kept, drift=f"{found.why}; {keeps}")
    if _is_validating(seen, manual_plan):
        return kept
    has_failed = isinstance(planning.answer, PlannerError)
    if has_failed and (wait := backoff(seen, now)):
        return replace(kept, wake_after_seconds=wait.left_seconds)
    if has_failed or planning.answer is None or planning.answer_base != base_of(manual_plan):
        start = start_validation(seen, manual_plan, current=manual_plan, unreserved=False)
        return replace(kept, actions=(*kept.actions, start))
    if isinstance(planning.answer, Infeasible):
        return replace(kept, drift=f"{_refused(manual_plan, planning.answer).message}; {keeps}")
    return kept


def start_validation(
    seen: Observed, manual_plan: PlanSeen, *, current: PlanSeen | None, unreserved: bool
) -> StartPlanning:
    """Return the request to validate a plan; the job may keep the GPUs of its current one."""
    return StartPlanning(
        key=seen.planning.key,
        base=base_of(manual_plan),
        current=current.plan if current else None,
        manual_plan=manual_plan.plan,
        unreserved=unreserved,
    )


def _is_validating(seen: Observed, manual_plan: PlanSeen) -> bool:
    return seen.planning.is_running and seen.planning.answer_base == base_of(manual_plan)


def _missing(parsed: ParsedSpec, manual_plan: UnreadablePlan | None) -> tuple[str, str]:
    """Return the reason and message for a manual plan that does not exist or cannot be read."""
    name = parsed.written.planning.plan_ref
    if manual_plan:
        return (
            Reason.PLAN_DOES_NOT_FIT,
            f"spec.planning.planRef: HetRLPlan {name} cannot be read: {manual_plan.problem}",
        )
    return (
        Reason.PLAN_NOT_FOUND,
        f"spec.planning.planRef: HetRLPlan {name} does not exist in namespace "
        f"{parsed.spec.namespace}; it is waited for",
    )


def _refused(manual_plan: PlanSeen, answer: Infeasible | InsufficientFreeGpus) -> Finding:
    found = refusal(answer)
    if isinstance(answer, InsufficientFreeGpus):
        return found
    text = f"HetRLPlan {manual_plan.name} does not fit: {found.message}"
    return not_yet(Reason.PLAN_DOES_NOT_FIT, text)


def _released(seen: Observed) -> tuple[Action, ...]:
    """Release the reservation of a plan that is not followed, unless pods use it."""
    return (ReleaseGpus(),) if seen.planning.is_reserved and not seen.pods else ()
