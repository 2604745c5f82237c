"""Which plan a job follows, and what to do until there is one, or a better answer to its spec."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

from hetrl_api.planning import PlanningMode
from hetrl_api.status import PlanStatus
from hetrl_core.capabilities import obstacles
from hetrl_core.plan import Infeasible, Plan
from hetrl_core.podset import pod_sets
from hetrl_core.task import Role
from hetrl_operator.actions import (
    Action,
    Apply,
    Delete,
    Event,
    ReleaseGpus,
    ReserveGpus,
    StartPlanning,
)
from hetrl_operator.decide.conditions import Finding
from hetrl_operator.decide.drift import Drift, drift
from hetrl_operator.decide.pods import num_wanted
from hetrl_operator.decide.retry import pause
from hetrl_operator.labels import ConditionType, EventReason, Reason
from hetrl_operator.observed import Observed, Occupied, PlannerTrouble, PlanSeen, Wish
from hetrl_operator.render import plan_manifest

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Where planning stands for a job."""

    plan: PlanSeen | None
    """The plan to follow now; None while there is none, or its GPUs are not ours yet."""

    finding: Finding
    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    drift: str = ""
    """Why the plan should give way, and why it has not yet; empty where it should not."""

    wake_after_seconds: float | None = None
    """When to look again though nothing has happened; None: only when something has."""


def planned(seen: Observed, wish: Wish, now: "datetime") -> Planned:
    """Return the plan that a job follows, or what brings it nearer to one."""
    known = newest(seen.plans)
    if known and not _answers(seen, known) and not seen.pods:
        # Nothing stands on it any more: the job was changed while it was suspended.
        return _search(seen, wish, now, discard=seen.plans)
    if known is None:
        return _search(seen, wish, now, discard=())
    stale = tuple(each for each in seen.plans if each.uid != known.uid)
    cleaning = _discard(stale, why="another plan took its place")
    if wish.written.planning.mode is PlanningMode.PLAN_ONLY:
        return Planned(plan=known, finding=_ready(known), actions=cleaning)
    if not seen.planning.is_reserved:
        return _reserve(seen, known, cleaning)
    kept = Planned(plan=known, finding=_ready(known), actions=cleaning)
    drifts = drift(
        seen.job, known, spec_key=seen.planning.spec_key, lost_nodes=seen.lost_nodes, now=now
    )
    return _give_way(seen, wish, kept, drifts, now) if drifts else kept


def newest(plans: Iterable[PlanSeen]) -> PlanSeen | None:
    """Return the plan that was made last: times are whole seconds, so they alone do not tell.

    Two that replace each other, as where a name comes back, are told by their times after all.
    """
    plans = tuple(plans)
    replaced = {each.replaces for each in plans}
    last = [each for each in plans if each.name not in replaced]
    return max(last or plans, key=lambda each: (each.created_at, each.name), default=None)


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


def _give_way(seen: Observed, wish: Wish, kept: Planned, drifts: Drift, now: "datetime") -> Planned:
    """Look for another plan while the job goes on by the one that it has."""
    assert kept.plan
    planning, known = seen.planning, kept.plan
    is_for_this = planning.answer_base == drifts.base
    if planning.is_running and is_for_this:
        return replace(kept, drift=f"{drifts.why}; another plan is being made")
    match planning.answer:
        case Plan() as plan if is_for_this:
            impossible = obstacles(plan, wish.spec)
            if not impossible:
                return _change_over(seen, kept, known, plan, drifts)
            return replace(kept, drift=f"{drifts.why}; {'; '.join(impossible)}")
        case Infeasible() | Occupied() as no_plan if (
            is_for_this and planning.answer_key == planning.key
        ):
            return replace(kept, drift=f"{drifts.why}; {_refusal(no_plan).message}")
        case PlannerTrouble() as trouble if is_for_this and (wait := pause(seen, now)):
            return replace(
                kept,
                drift=f"{drifts.why}; {trouble.message}; {wait}",
                wake_after_seconds=wait.left_seconds,
            )
        case _:
            start = StartPlanning(
                key=planning.key,
                base=drifts.base,
                keep=known.plan if drifts.keeps_trainer else None,
            )
            return replace(
                kept,
                drift=f"{drifts.why}; another plan is being made",
                actions=(*kept.actions, start),
            )


def _change_over(
    seen: Observed, kept: Planned, known: PlanSeen, plan: Plan, drifts: Drift
) -> Planned:
    """Reserve the other GPUs and write the plan; the next round finds it and follows it."""
    manifest = plan_manifest(
        seen.job,
        plan,
        key=seen.planning.answer_key,
        spec_key=seen.planning.spec_key,
        left_out=seen.planning.left_out,
        replaces=known.name,
    )
    return replace(
        kept,
        drift=f"{drifts.why}; another plan is being written",
        actions=(*kept.actions, ReserveGpus(plan=plan), Apply(manifest=manifest)),
        events=_change_events(known.plan, plan, drifts.why),
    )


def _change_events(old: Plan, new: Plan, why: str) -> tuple[Event, ...]:
    before, after = pod_sets(old), pod_sets(new)
    stays = [each for each in before if each.role is Role.TRAINER] == [
        each for each in after if each.role is Role.TRAINER
    ]
    few, many = num_wanted(before, Role.ROLLOUT), num_wanted(after, Role.ROLLOUT)
    text = (
        f"{why}: {old.prediction.samples_per_second:.3g} -> "
        f"{new.prediction.samples_per_second:.3g} samples/s and "
        f"${old.prediction.dollars_per_hour:.2f} -> ${new.prediction.dollars_per_hour:.2f}/h "
        f"predicted; {few} -> {many} rollout pods; the trainer "
        + ("stays" if stays else "moves, from its last checkpoint")
    )
    replanned = Event(reason=EventReason.REPLANNED, message=text)
    if few == many:
        return (replanned,)
    scaled = Event(reason=EventReason.SCALED_ROLLOUT, message=f"{few} -> {many} rollout pods")
    return (replanned, scaled)


def _search(
    seen: Observed, wish: Wish, now: "datetime", *, discard: tuple[PlanSeen, ...]
) -> Planned:
    cleaning = _discard(discard, why="the planning fields of the job changed")
    planning = seen.planning
    is_for_this = not planning.answer_base
    if planning.is_running and is_for_this:
        return Planned(plan=None, finding=_not_yet(Reason.PLANNING, "a plan is being made"))
    match planning.answer:
        case Plan() as plan if is_for_this:
            return _commit(seen, wish, plan, cleaning)
        case Infeasible() | Occupied() as no_plan if (
            is_for_this and planning.answer_key == planning.key
        ):
            return Planned(plan=None, finding=_refusal(no_plan), actions=cleaning)
        case PlannerTrouble() as trouble if is_for_this and (wait := pause(seen, now)):
            text = f"{trouble.message}; {wait}"
            return Planned(
                plan=None,
                finding=_not_yet(trouble.reason, text),
                actions=cleaning,
                wake_after_seconds=wait.left_seconds,
            )
        case _:
            finding = _not_yet(Reason.PLANNING, "a plan is being made")
            # What was held for an earlier answer is nobody's, unless pods stand on it.
            free = (ReleaseGpus(),) if planning.is_reserved and not seen.pods else ()
            start = StartPlanning(key=planning.key)
            return Planned(plan=None, finding=finding, actions=(*cleaning, *free, start))


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
        # In the words of before: that a plan was found is told when it is there to be looked at.
        finding=_not_yet(Reason.PLANNING, "a plan is being made"),
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


def _refusal(answer: Infeasible | Occupied) -> Finding:
    match answer:
        case Infeasible(reasons=reasons):
            return _not_yet(Reason.INFEASIBLE, "; ".join(reasons))
        case Occupied(reasons=reasons, held_gpus=held):
            text = f"other jobs hold {held} GPUs, and without these: {'; '.join(reasons)}"
            return _not_yet(Reason.FLEET_OCCUPIED, text)
        case _:
            assert_never(answer)
