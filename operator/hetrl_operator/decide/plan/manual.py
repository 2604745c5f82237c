"""A job that runs by the plan that it names: mode Manual. Nothing is searched.

The plan is looked at first, by the planner's processes. What a job runs by is kept whatever befalls
it: that it is doubtful is told, and another plan is its owner's to name.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from hetrl_core.plan.plan import Infeasible, Plan
from hetrl_operator.decide.kueue.queueing import waits
from hetrl_operator.decide.plan import history
from hetrl_operator.decide.plan.active_plan import base_of, in_force, named
from hetrl_operator.decide.plan.backoff import pause
from hetrl_operator.decide.plan.drift import drift
from hetrl_operator.decide.plan.planned import Planned, not_yet, ready, refusal
from hetrl_operator.decide.plan.replan import move_to
from hetrl_operator.model.actions import Action, ReleaseGpus, ReserveGpus, StartPlanning
from hetrl_operator.model.conditions import Finding
from hetrl_operator.model.observed import (
    FleetSeen,
    Observed,
    Occupied,
    PlannerTrouble,
    PlanSeen,
    UnreadablePlan,
    Wish,
)
from hetrl_operator.model.reasons import Reason

if TYPE_CHECKING:
    from datetime import datetime

_LOOKED_AT = "the plan is being looked at"


def planned(seen: Observed, wish: Wish, now: "datetime") -> Planned:
    """Return the plan that a Manual job follows, or what brings it nearer to the one it names."""
    standing = in_force(seen.job, seen.plans)
    if standing and seen.pods:
        return _running(seen, wish, standing, now)
    return _starting(seen, wish, now)


def _starting(seen: Observed, wish: Wish, now: "datetime") -> Planned:
    """Look at the plan before anything stands on it, and take its GPUs."""
    given = named(seen.job, (*seen.plans, *seen.unreadable))
    if not isinstance(given, PlanSeen):
        reason, text = _missing(wish, given)
        return Planned(plan=None, finding=not_yet(reason, text), actions=_released(seen))
    if _is_looked_at(seen, given):
        return Planned(plan=None, finding=not_yet(Reason.PLANNING, _LOOKED_AT))
    planning, on_paper = seen.planning, waits(seen.job, seen.queueing)
    match planning.answer if planning.answer_base == base_of(given) else None:
        case Plan() if on_paper or planning.holds_given:
            actions = history.follow(seen, wish, given, now, runs=not on_paper)
            return Planned(plan=given, finding=ready(given), actions=actions)
        case Plan():
            reserve = ReserveGpus(plan=given.plan)
            return Planned(
                plan=None, finding=not_yet(Reason.PLANNING, _LOOKED_AT), actions=(reserve,)
            )
        case Infeasible() | Occupied() as no_plan if planning.answer_key == planning.key:
            finding = _refused(given, no_plan)
            return Planned(plan=None, finding=finding, actions=_released(seen))
        case PlannerTrouble() as trouble if wait := pause(seen, now):
            text = f"{trouble.message}; {wait}"
            return Planned(
                plan=None,
                finding=not_yet(trouble.reason, text),
                wake_after_seconds=wait.left_seconds,
            )
        case _:
            start = look_at(seen, given, standing=None, on_paper=on_paper)
            return Planned(
                plan=None,
                finding=not_yet(Reason.PLANNING, _LOOKED_AT),
                actions=(*_released(seen), start),
            )


def _running(seen: Observed, wish: Wish, standing: PlanSeen, now: "datetime") -> Planned:
    kept = Planned(
        plan=standing,
        finding=ready(standing),
        actions=history.follow(seen, wish, standing, now, runs=True),
    )
    given = named(seen.job, (*seen.plans, *seen.unreadable))
    is_followed = given is not None and given.uid == standing.uid
    # What is held may be another plan's, named for a moment and then no more.
    if not seen.planning.is_reserved or (is_followed and not seen.planning.holds_given):
        return replace(kept, actions=(*kept.actions, ReserveGpus(plan=standing.plan)))
    if not isinstance(given, PlanSeen):
        _, text = _missing(wish, given)
        return replace(kept, drift=f"{text}; until then the job goes on by {standing.name}")
    if given.uid == standing.uid:
        return _doubted(seen, kept, given, now)
    found = move_to(
        seen,
        wish,
        kept,
        given,
        now,
        look=look_at(seen, given, standing=standing, on_paper=False),
    )
    if found.plan is given:
        actions = history.follow(seen, wish, given, now, runs=True)
        return replace(found, actions=actions)
    return found


def _doubted(seen: Observed, kept: Planned, given: PlanSeen, now: "datetime") -> Planned:
    """Say why the plan should give way; whether it fits the spec is asked when that changes."""
    found = drift(
        seen.job,
        given,
        # Neither a changed spec nor a changed fleet asks for another plan here.
        spec_key=given.planned_for,
        nodes=seen.nodes,
        fleet=FleetSeen(),
        now=now,
    )
    planning = seen.planning
    keeps = "spec.planning.mode Manual keeps the plan"
    if found:
        return replace(kept, drift=f"{found.why}; {keeps}")
    if _is_looked_at(seen, given):
        return kept
    has_failed = isinstance(planning.answer, PlannerTrouble)
    if has_failed and (wait := pause(seen, now)):
        return replace(kept, wake_after_seconds=wait.left_seconds)
    if has_failed or planning.answer is None or planning.answer_base != base_of(given):
        start = look_at(seen, given, standing=given, on_paper=False)
        return replace(kept, actions=(*kept.actions, start))
    if isinstance(planning.answer, Infeasible):
        return replace(kept, drift=f"{_refused(given, planning.answer).message}; {keeps}")
    return kept


def look_at(
    seen: Observed, given: PlanSeen, *, standing: PlanSeen | None, on_paper: bool
) -> StartPlanning:
    """Have a plan looked at; what the job stands on already it may keep."""
    return StartPlanning(
        key=seen.planning.key,
        base=base_of(given),
        standing=standing.plan if standing else None,
        given=given.plan,
        on_paper=on_paper,
    )


def _is_looked_at(seen: Observed, given: PlanSeen) -> bool:
    return seen.planning.is_running and seen.planning.answer_base == base_of(given)


def _missing(wish: Wish, given: UnreadablePlan | None) -> tuple[str, str]:
    """Say why there is nothing to look at."""
    name = wish.written.planning.plan_ref
    if given:
        return (
            Reason.PLAN_DOES_NOT_FIT,
            f"spec.planning.planRef: HetRLPlan {name} cannot be read: {given.problem}",
        )
    return (
        Reason.PLAN_NOT_FOUND,
        f"spec.planning.planRef: HetRLPlan {name} does not exist in namespace "
        f"{wish.spec.namespace}; it is waited for",
    )


def _refused(given: PlanSeen, answer: Infeasible | Occupied) -> Finding:
    found = refusal(answer)
    if isinstance(answer, Occupied):
        return found
    text = f"HetRLPlan {given.name} does not fit: {found.message}"
    return not_yet(Reason.PLAN_DOES_NOT_FIT, text)


def _released(seen: Observed) -> tuple[Action, ...]:
    """Give back what is held for a plan that is not followed, unless pods stand on it."""
    return (ReleaseGpus(),) if seen.planning.is_reserved and not seen.pods else ()
