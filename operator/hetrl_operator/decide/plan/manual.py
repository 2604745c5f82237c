"""Planning of a job in mode Manual: it runs by the plan that it names, without a search.

The planner's processes validate the plan first. The job keeps its active plan in any case: problems
are reported, and its owner may name another plan.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from hetrl_core.plan.plan import Infeasible
from hetrl_operator.decide.plan import history
from hetrl_operator.decide.plan.drift import machine_drift
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
from hetrl_operator.decide.plan.replan import move_to
from hetrl_operator.model.actions import Action, ReleaseGpus, ReserveGpus, StartPlanning
from hetrl_operator.model.conditions import Finding
from hetrl_operator.model.kueue.queueing import waits
from hetrl_operator.model.observed import Observed, ParsedSpec
from hetrl_operator.model.plan_selection import validation_id
from hetrl_operator.model.planning import InsufficientFreeGpus, PlanSeen, UnreadablePlan
from hetrl_operator.model.reasons import Reason

if TYPE_CHECKING:
    from datetime import datetime

_VALIDATING = "the plan is being validated"


def planned(seen: Observed, parsed: ParsedSpec, now: "datetime") -> Planned:
    """Return the plan that a Manual job follows, or the actions that lead to the one it names."""
    if seen.active_plan and seen.pods:
        return _running(seen, parsed, seen.active_plan, now)
    return _starting(seen, parsed, now)


def _starting(seen: Observed, parsed: ParsedSpec, now: "datetime") -> Planned:
    """Validate the plan before any pod uses it, and reserve its GPUs."""
    manual_plan = seen.manual_plan
    if not isinstance(manual_plan, PlanSeen):
        reason, text = _missing(parsed, manual_plan)
        return Planned(plan=None, finding=not_yet(reason, text), actions=_released(seen))
    unreserved = waits(seen.job, seen.queueing)
    validating = not_yet(Reason.PLANNING, _VALIDATING)
    match next_step(seen, validation_id(manual_plan), now):
        case Start() | Choose():
            start = start_validation(manual_plan, current=None, unreserved=unreserved)
            return Planned(plan=None, finding=validating, actions=(*_released(seen), start))
        case Wait():
            return Planned(plan=None, finding=validating)
        case Follow() if unreserved or seen.planning.holds_manual_plan:
            actions = history.follow(seen, parsed, manual_plan, now, runs=not unreserved)
            return Planned(plan=manual_plan, finding=ready(manual_plan), actions=actions)
        case Follow():
            reserve = ReserveGpus(plan=manual_plan.plan)
            return Planned(plan=None, finding=validating, actions=(reserve,))
        case Refuse(no_plan):
            finding = _refused(manual_plan, no_plan)
            return Planned(plan=None, finding=finding, actions=_released(seen))
        case Retry() as failed:
            return retry_later(failed)


def _running(seen: Observed, parsed: ParsedSpec, current: PlanSeen, now: "datetime") -> Planned:
    kept = Planned(
        plan=current,
        finding=ready(current),
        actions=history.follow(seen, parsed, current, now, runs=True),
    )
    manual_plan = seen.manual_plan
    is_followed = manual_plan is not None and manual_plan.uid == current.uid
    # The reservation may be of another plan that was named only for a moment.
    if not seen.planning.is_reserved or (is_followed and not seen.planning.holds_manual_plan):
        return replace(kept, actions=(*kept.actions, ReserveGpus(plan=current.plan)))
    if not isinstance(manual_plan, PlanSeen):
        _, text = _missing(parsed, manual_plan)
        return replace(kept, drift_message=f"{text}; until then the job goes on by {current.name}")
    if manual_plan.uid == current.uid:
        return _doubted(seen, kept, manual_plan, now)
    found = move_to(
        seen,
        parsed,
        kept,
        manual_plan,
        now,
        validation=start_validation(manual_plan, current=current, unreserved=False),
    )
    if found.plan is manual_plan:
        actions = history.follow(seen, parsed, manual_plan, now, runs=True)
        return replace(found, actions=actions)
    return found


def _doubted(seen: Observed, kept: Planned, manual_plan: PlanSeen, now: "datetime") -> Planned:
    """Report why the plan should be replaced; validate it again after a change of the spec."""
    keeps = "spec.planning.mode Manual keeps the plan"
    if found := machine_drift(seen, manual_plan, now):
        return replace(kept, drift_message=f"{found.why}; {keeps}")
    match next_step(seen, validation_id(manual_plan), now, accepts_outdated=True):
        case Start():
            start = start_validation(manual_plan, current=manual_plan, unreserved=False)
            return replace(kept, actions=(*kept.actions, start))
        case Retry(backoff=wait):
            return replace(kept, wake_after_seconds=wait.left_seconds)
        case Refuse(Infeasible() as answer):
            return replace(kept, drift_message=f"{_refused(manual_plan, answer).message}; {keeps}")
        case _:
            return kept


def start_validation(
    manual_plan: PlanSeen, *, current: PlanSeen | None, unreserved: bool
) -> StartPlanning:
    """Return the request to validate a plan; the job may keep the GPUs of its current one."""
    return StartPlanning(
        request_id=validation_id(manual_plan),
        current=current.plan if current else None,
        manual_plan=manual_plan.plan,
        unreserved=unreserved,
    )


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
