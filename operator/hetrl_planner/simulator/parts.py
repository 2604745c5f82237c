"""The parts of one simulation, made from a pipeline and wired together.

Each part has its own module; this one only connects them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat

import numpy as np

from hetrl_planner.simulator.coordination.coordinator import Coordinator
from hetrl_planner.simulator.coordination.leases import Leases
from hetrl_planner.simulator.coordination.ledger import RunLedger
from hetrl_planner.simulator.events.calendar import Calendar
from hetrl_planner.simulator.events.trajectory import Trajectory
from hetrl_planner.simulator.pipeline.pipeline import Pipeline, WeightRoute
from hetrl_planner.simulator.serving.gpus import GpuTurns
from hetrl_planner.simulator.serving.replica import Replica
from hetrl_planner.simulator.serving.stage import Scoring, ScoringStage
from hetrl_planner.simulator.serving.weights import Route, connect
from hetrl_planner.simulator.training.failures import FailureInjector
from hetrl_planner.simulator.training.trainer import Trainer

_DRAWN_AT_ONCE = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """All parts of a simulation."""

    calendar: Calendar
    ledger: RunLedger
    leases: Leases
    coordinator: Coordinator
    groups: tuple[tuple[Replica, ...], ...]
    """In the order of the pipeline's groups."""

    stages: tuple[ScoringStage, ...]
    routes: tuple[Route, ...]
    trainer: Trainer
    outages: FailureInjector

    def start(self) -> None:
        """Let every replica request work."""
        for group in self.groups:
            for replica in group:
                self.leases.request_together(replica)


def assemble(pipeline: Pipeline, generator: np.random.Generator) -> Parts:
    """Make the parts of a pipeline; each kind of random event has its own stream."""
    lengths, filtering, failing = generator.spawn(3)
    calendar = Calendar()
    ledger = RunLedger(pipeline)
    drawn = _one_by_one(partial(pipeline.lengths.draw, lengths))
    leases = Leases(calendar, pipeline, ledger, lengths=drawn)
    coordinator = Coordinator(
        pipeline,
        ledger,
        leases,
        is_filtered=_chance(filtering, pipeline.filtered_share),
    )
    turns = {each.name: GpuTurns(calendar, each) for each in pipeline.shared_gpus}
    groups = _groups(pipeline, calendar, turns, leases, deliver=coordinator.deliver)
    routes = _routes(pipeline, calendar, groups)
    stages = _stages(pipeline, calendar, coordinator, turns)

    def publish(version: int) -> None:
        for route in routes:
            route.publish(version)

    trainer = Trainer(
        calendar,
        pipeline.trainer,
        coordinator,
        batch_size=pipeline.batch_size,
        turns=turns,
        publish=publish,
    )
    coordinator.on_ready = trainer.consider
    coordinator.trainer_waits = lambda: trainer.waits
    outages = FailureInjector(
        calendar,
        pipeline.failures,
        replicas=dict(zip((each.name for each in pipeline.rollouts), groups, strict=True)),
        routes={route.spec.region: route for route in routes},
        trainer=trainer,
        generator=failing,
    )
    return Parts(
        calendar=calendar,
        ledger=ledger,
        leases=leases,
        coordinator=coordinator,
        groups=groups,
        stages=stages,
        routes=routes,
        trainer=trainer,
        outages=outages,
    )


def _groups(
    pipeline: Pipeline,
    calendar: Calendar,
    turns: dict[str, GpuTurns],
    leases: Leases,
    *,
    deliver: Callable[[Trajectory], None],
) -> tuple[tuple[Replica, ...], ...]:
    groups = tuple(
        tuple(
            Replica(
                calendar,
                spec,
                is_interruptible=pipeline.is_interruptible,
                work_source=leases,
                deliver=deliver,
            )
            for _ in range(spec.num_replicas)
        )
        for spec in pipeline.rollouts
    )
    for spec, group in zip(pipeline.rollouts, groups, strict=True):
        for replica in group if spec.gpus else ():
            turns[spec.gpus].add_generation(replica.work)
    return groups


def _routes(
    pipeline: Pipeline, calendar: Calendar, groups: tuple[tuple[Replica, ...], ...]
) -> tuple[Route, ...]:
    given = {each.region: each for each in pipeline.routes}
    replicas: dict[str, list[Replica]] = {}
    for group in groups:
        for replica in group:
            replicas.setdefault(replica.group.region, []).append(replica)
    routes = tuple(
        Route(given.get(region, WeightRoute(region=region)), there)
        for region, there in replicas.items()
    )
    connect(calendar, routes)
    return routes


def _stages(
    pipeline: Pipeline, calendar: Calendar, coordinator: Coordinator, turns: dict[str, GpuTurns]
) -> tuple[ScoringStage, ...]:
    stages = tuple(
        ScoringStage(calendar, spec, gpus=turns[spec.gpus] if spec.gpus else None)
        for spec in pipeline.stages
    )
    if stages:
        scoring = Scoring(
            stages,
            batch_size=pipeline.batch_size,
            group_size=pipeline.group_size,
            num_waiting=lambda: coordinator.num_waiting,
            on_scored=coordinator.scored,
        )
        coordinator.score = scoring.submit
    return stages


def _one_by_one(draw: Callable[[int], list[int]]) -> Iterator[int]:
    """Yield values drawn in blocks, which numpy makes much faster than single ones."""
    return chain.from_iterable(draw(_DRAWN_AT_ONCE) for _ in repeat(None))


def _chance(generator: np.random.Generator, share: float) -> Callable[[], bool]:
    if not share:
        return _never
    return lambda: bool(generator.random() < share)


def _never() -> bool:
    return False
