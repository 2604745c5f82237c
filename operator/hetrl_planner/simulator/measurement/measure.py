"""Totals of a run, which only grow; a result is the difference between two moments."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from hetrl_planner.simulator.coordination.ledger import RunLedger
from hetrl_planner.simulator.events.trajectory import LeaseEnd
from hetrl_planner.simulator.measurement.result import (
    Dollars,
    RolloutUse,
    Spread,
    StageUse,
    StalenessResult,
    WorkCounts,
)
from hetrl_planner.simulator.parts import Parts
from hetrl_planner.simulator.pipeline.pipeline import Pipeline, RolloutGroup
from hetrl_planner.simulator.serving.replica import Replica
from hetrl_planner.simulator.serving.stage import ScoringStage
from hetrl_planner.simulator.serving.weights import Route

SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTotals:
    """Seconds of all replicas of a group together."""

    active: float = 0.0
    running: float = 0.0
    """Occupied, times the trajectories."""

    held: float = 0.0
    stopped: float = 0.0
    lost: float = 0.0

    def since(self, before: "GroupTotals") -> "GroupTotals":
        """Return the totals since an earlier moment."""
        return GroupTotals(
            active=self.active - before.active,
            running=self.running - before.running,
            held=self.held - before.held,
            stopped=self.stopped - before.stopped,
            lost=self.lost - before.lost,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Everything that a result is computed from, at one moment."""

    now: float
    trainer_busy: float
    trainer_lost: float
    groups: tuple[GroupTotals, ...]
    stages: tuple[float, ...]
    generated_tokens: float
    consumed_tokens: float
    discarded_tokens: float
    transfers: tuple[int, ...]


def totals(parts: Parts) -> Totals:
    """Read all counters."""
    replicas = [replica for group in parts.groups for replica in group]
    for replica in replicas:
        replica.work.settle()
    partial_tokens = sum(each.discarded_tokens for each in replicas)
    coordinator, trainer = parts.coordinator, parts.trainer
    return Totals(
        now=parts.calendar.now,
        trainer_busy=trainer.busy_seconds(),
        trainer_lost=trainer.lost_seconds(),
        groups=tuple(_group_totals(group) for group in parts.groups),
        stages=tuple(each.busy_seconds for each in parts.stages),
        generated_tokens=coordinator.generated_tokens + partial_tokens,
        consumed_tokens=coordinator.consumed_tokens,
        discarded_tokens=coordinator.discarded_tokens + partial_tokens,
        transfers=tuple(each.num_transfers for each in parts.routes),
    )


def rollout_use(
    spec: RolloutGroup, before: GroupTotals, after: GroupTotals, *, seconds: float
) -> RolloutUse:
    """Return how a group spent the time between two moments."""
    spent = after.since(before)
    # A time of no length has no shares.
    available = spec.num_replicas * seconds or 1.0
    idle = max(0.0, available - spent.active - spent.stopped - spent.held - spent.lost)
    return RolloutUse(
        name=spec.name,
        replicas=spec.num_replicas,
        generating_share=spent.active / available,
        idle_share=idle / available,
        weights_share=spent.stopped / available,
        yielded_share=spent.held / available,
        lost_share=spent.lost / available,
        mean_running=spent.running / available,
    )


def stage_use(stage: ScoringStage, busy_seconds: float, *, seconds: float) -> StageUse:
    """Return how a stage's servers spent the time."""
    return StageUse(
        name=stage.spec.name,
        servers=stage.spec.num_servers,
        idle_share=idle_share(busy_seconds / stage.spec.num_servers, seconds=seconds),
    )


def transferred(routes: Sequence[Route], before: Totals, after: Totals) -> tuple[float, float]:
    """Return the GiB that travelled between two moments, and their egress in dollars."""
    gib = egress = 0.0
    for route, first, last in zip(routes, before.transfers, after.transfers, strict=True):
        moved = (last - first) * route.spec.transferred_gib
        gib += moved
        egress += moved * route.spec.egress_dollars_per_gib
    return gib, egress


def dollars(pipeline: Pipeline, *, egress: float, seconds: float, samples: float) -> Dollars:
    """Return the price of everything for a time."""
    gpus = pipeline.dollars_per_hour * seconds / SECONDS_PER_HOUR
    total = gpus + egress
    return Dollars(
        gpus=gpus,
        egress=egress,
        per_hour=total * SECONDS_PER_HOUR / seconds if seconds else 0.0,
        per_thousand_samples=1000 * total / samples if samples else 0.0,
    )


def staleness_result(ages: Counter[int]) -> StalenessResult:
    """Return the histogram and its figures."""
    if not ages:
        return StalenessResult(histogram=(), mean=0.0, p95=0, max=0)
    count, most = ages.total(), max(ages)
    rank, seen, p95 = ceil(0.95 * count), 0, 0
    for age in range(most + 1):
        seen += ages[age]
        if seen >= rank:
            p95 = age
            break
    return StalenessResult(
        histogram=tuple(ages[age] for age in range(most + 1)),
        mean=sum(age * times for age, times in ages.items()) / count,
        p95=p95,
        max=most,
    )


def idle_share(busy_seconds: float, *, seconds: float) -> float:
    """Return the idle share of a time."""
    return min(1.0, max(0.0, 1 - busy_seconds / seconds)) if seconds else 0.0


def spread(values: Sequence[float]) -> Spread:
    """Return mean, 95th percentile (nearest rank) and largest; zeros for no value."""
    if not values:
        return Spread(mean=0.0, p95=0.0, max=0.0)
    ordered = sorted(values)
    return Spread(
        mean=sum(values) / len(values),
        p95=ordered[ceil(0.95 * len(ordered)) - 1],
        max=ordered[-1],
    )


def work_counts(ledger: RunLedger) -> WorkCounts:
    """Return the outcome of every lease."""
    ended = ledger.endings
    return WorkCounts(
        granted=ledger.num_granted,
        consumed=ended[LeaseEnd.CONSUMED],
        buffered=len(ledger.accepted),
        running=len(ledger.leased),
        rejected=ended[LeaseEnd.REJECTED],
        withdrawn=ended[LeaseEnd.WITHDRAWN],
        expired=ended[LeaseEnd.EXPIRED],
        filtered=ended[LeaseEnd.FILTERED],
        fenced=ended[LeaseEnd.FENCED],
    )


def _group_totals(replicas: Sequence[Replica]) -> GroupTotals:
    return GroupTotals(
        active=sum(each.work.active_seconds for each in replicas),
        running=sum(each.work.member_seconds for each in replicas),
        held=sum(each.work.held_seconds for each in replicas),
        stopped=sum(each.work.stopped_seconds for each in replicas),
        lost=sum(each.lost_seconds() for each in replicas),
    )
