"""Which plan a job follows, and what to do until there is one."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from hetrl_api.planning import PlanningMode
from hetrl_api.status import PlanStatus
from hetrl_core.capabilities import obstacles
from hetrl_core.plan import Infeasible, Plan
from hetrl_operator.actions import Action, Apply, Delete, ReserveGpus, StartPlanning
from hetrl_operator.decide.conditions import Finding
from hetrl_operator.labels import ConditionType, Reason
from hetrl_operator.observed import Observed, Occupied, PlannerTrouble, PlanSeen, Wish
from hetrl_operator.render import plan_manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Where planning stands for a job."""

    plan: PlanSeen | None
    """The plan to follow now; None while there is none, or its GPUs are not ours yet."""

    finding: Finding
    actions: tuple[Action, ...] = ()


def planned(seen: Observed, wish: Wish) -> Planned:
    """Return the plan that a job follows, or what brings it nearer to one."""
    known = newest(seen.plans)
    if known and not _answers(seen, known) and not seen.pods:
        # Nothing stands on it any more: the job was changed while it was suspended.
        return _search(seen, wish, discard=seen.plans)
    if known is None:
        return _search(seen, wish, discard=())
    stale = tuple(each for each in seen.plans if each.uid != known.uid)
    cleaning = _discard(stale, why="another plan took its place")
    if wish.written.planning.mode is PlanningMode.PLAN_ONLY or seen.planning.is_reserved:
        return Planned(plan=known, finding=_ready(known), actions=cleaning)
    return _reserve(seen, known, cleaning)


def newest(plans: Iterable[PlanSeen]) -> PlanSeen | None:
    """Return the plan that was made last."""
    return max(plans, key=lambda each: (each.created_at, each.name), default=None)


def plan_status(plan: PlanSeen) -> PlanStatus:
    """Return what status shows of a plan."""
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


def _answers(seen: Observed, plan: PlanSeen) -> bool:
    return plan.planned_for == seen.planning.spec_key


def _reserve(seen: Observed, known: PlanSeen, cleaning: tuple[Action, ...]) -> Planned:
    """Take the plan's GPUs again, as after a resume; another plan where they are gone."""
    if seen.planning.conflict and not seen.pods:
        return Planned(
            plan=None,
            finding=_not_yet(Reason.PLANNING, seen.planning.conflict),
            actions=_discard(seen.plans, why="its GPUs went to another job meanwhile"),
        )
    return Planned(
        plan=known, finding=_ready(known), actions=(*cleaning, ReserveGpus(plan=known.plan))
    )


def _search(seen: Observed, wish: Wish, *, discard: tuple[PlanSeen, ...]) -> Planned:
    cleaning = _discard(discard, why="the planning fields of the job changed")
    planning = seen.planning
    if planning.is_running:
        return Planned(plan=None, finding=_not_yet(Reason.PLANNING, "a plan is being made"))
    match planning.answer:
        case Plan() as plan:
            return _commit(seen, wish, plan, cleaning)
        case None:
            pass
        case Infeasible() | Occupied() | PlannerTrouble() as no_plan:
            if planning.answer_key == planning.key:
                return Planned(plan=None, finding=_refusal(no_plan), actions=cleaning)
        case _:
            assert_never(planning.answer)
    finding = _not_yet(Reason.PLANNING, "a plan is being made")
    return Planned(plan=None, finding=finding, actions=(*cleaning, StartPlanning(key=planning.key)))


def _commit(seen: Observed, wish: Wish, plan: Plan, cleaning: tuple[Action, ...]) -> Planned:
    """Reserve the GPUs, then write the plan; the next round finds it and goes on."""
    impossible = obstacles(plan, wish.spec)
    if impossible:
        finding = _refusal(Infeasible(reasons=impossible))
        return Planned(plan=None, finding=finding, actions=cleaning)
    manifest = plan_manifest(
        seen.job,
        plan,
        key=seen.planning.answer_key,
        spec_key=seen.planning.spec_key,
        left_out=seen.planning.left_out,
    )
    only = wish.written.planning.mode is PlanningMode.PLAN_ONLY
    reserve = () if only else (ReserveGpus(plan=plan),)
    return Planned(
        plan=None,
        finding=_not_yet(Reason.PLANNING, "a plan was found and is being written"),
        actions=(*cleaning, *reserve, Apply(manifest=manifest)),
    )


def _discard(plans: Iterable[PlanSeen], *, why: str) -> tuple[Delete, ...]:
    return tuple(Delete(kind="HetRLPlan", name=each.name, uid=each.uid, why=why) for each in plans)


def _ready(known: PlanSeen) -> Finding:
    plan = known.plan
    message = (
        f"{known.name}: {plan.num_gpus} GPUs, {plan.prediction.step_seconds:.3g} s a step and "
        f"${plan.prediction.dollars_per_hour:.2f}/h predicted; bound by "
        f"{plan.prediction.bottleneck}"
    )
    if known.left_out:
        message += f"; {known.left_out}"
    return Finding(
        type=ConditionType.PLANNED, holds=True, reason=Reason.PLAN_READY, message=message
    )


def _not_yet(reason: str, message: str) -> Finding:
    return Finding(type=ConditionType.PLANNED, holds=False, reason=reason, message=message)


def _refusal(answer: Infeasible | Occupied | PlannerTrouble) -> Finding:
    match answer:
        case Infeasible(reasons=reasons):
            return _not_yet(Reason.INFEASIBLE, "; ".join(reasons))
        case Occupied(reasons=reasons, held_gpus=held):
            text = f"other jobs hold {held} GPUs, and without these: {'; '.join(reasons)}"
            return _not_yet(Reason.FLEET_OCCUPIED, text)
        case PlannerTrouble(reason=reason, message=message):
            return _not_yet(reason, message)
        case _:
            assert_never(answer)
