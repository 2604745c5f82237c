"""Costs of each way to do a task: seconds, bytes on each GPU, and the path of its weights.

Also costs of several tasks that share GPUs: every feasible combination, without those that another
one dominates in every respect that ``evaluate`` reads.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.cost import memory
from hetrl_planner.cost.shares import balanced
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.layout import Layout, PipelineStage, TaskLayout
from hetrl_planner.layout.replicas import ReplicaCosts
from hetrl_planner.layout.weights import WeightPaths
from tests.planner.oracle.cuts import TENSOR_SIZES

Bytes = npt.NDArray[np.float64]
"""By GPU."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shared:
    """Tasks that share GPUs, generation not among them, each in one way."""

    tasks: tuple[TaskLayout, ...]
    gpus: frozenset[int]
    scoring_seconds: float
    training_seconds: float
    proximal_seconds: float
    """Of training: what is done before the first gradient."""

    resident: Bytes
    working: Bytes
    """Of the task that has most of it on that GPU."""

    weights_apart: tuple[float, ...] = ()
    weights_beside: tuple[float, ...] = ()
    """How long new weights take to wherever they may be wanted, on GPUs of other groups and on
    those of this one; empty unless the actor trains here."""

    @property
    def seconds(self) -> float:
        """All tasks, one after the other."""
        return self.scoring_seconds + self.training_seconds


class Ways:
    """The ways of one job's tasks on its devices."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.devices = evaluator.devices
        self.replicas = ReplicaCosts(evaluator.work, evaluator.devices)
        kinds = [self.devices.kind(machine) for machine in self.devices.gpu_machines]
        self._asked: dict[tuple[object, ...], tuple[float, ...]] = {}
        self.room = np.array([kind.memory_bytes - memory.overhead_bytes(kind) for kind in kinds])

    def nothing(self) -> Shared:
        """Return what no task takes."""
        none = np.zeros(self.devices.num_gpus)
        return Shared(
            tasks=(),
            gpus=frozenset(),
            scoring_seconds=0.0,
            training_seconds=0.0,
            proximal_seconds=0.0,
            resident=none,
            working=none,
        )

    def alone(self, way: TaskLayout) -> Shared | None:
        """Return what one task takes, ``None`` if it does not fit even alone."""
        resident, working = self.bytes(way)
        if np.any(resident + working > self.room):
            return None
        trains = way.task in TRAINING_TASKS
        return Shared(
            tasks=(way,),
            gpus=way.gpus,
            scoring_seconds=0.0 if trains else self._scoring_seconds(way),
            training_seconds=self.evaluator.training_seconds(way) if trains else 0.0,
            proximal_seconds=self.evaluator.proximal_seconds(way) if trains else 0.0,
            resident=resident,
            working=working,
            weights_apart=self._weights(way, is_beside=False),
            weights_beside=self._weights(way, is_beside=True),
        )

    def bytes(self, way: TaskLayout) -> tuple[Bytes, Bytes]:
        """Return what a task keeps on each GPU, and what it needs beside while it runs."""
        resident, working = np.zeros(self.devices.num_gpus), np.zeros(self.devices.num_gpus)
        for replica in way.replicas:
            key = self.replicas.key(replica)
            for number, stage in enumerate(replica):
                footprint = self.replicas.footprint(way, key, number)
                resident[list(stage.gpus)] = footprint.resident_bytes
                working[list(stage.gpus)] = footprint.working_bytes
        return resident, working

    def both(self, one: Shared, other: Shared) -> Shared | None:
        """Return what two take that share GPUs, ``None`` if they do not fit."""
        resident, working = one.resident + other.resident, np.maximum(one.working, other.working)
        if np.any(resident + working > self.room):
            return None
        return Shared(
            tasks=one.tasks + other.tasks,
            gpus=one.gpus | other.gpus,
            scoring_seconds=one.scoring_seconds + other.scoring_seconds,
            training_seconds=one.training_seconds + other.training_seconds,
            proximal_seconds=one.proximal_seconds + other.proximal_seconds,
            resident=resident,
            working=working,
            weights_apart=one.weights_apart + other.weights_apart,
            weights_beside=one.weights_beside + other.weights_beside,
        )

    def _scoring_seconds(self, way: TaskLayout) -> float:
        paces = [self.replicas.scoring(self.replicas.key(replica)) for replica in way.replicas]
        counts = balanced(paces, sequences=self.evaluator.work.batch_size)
        return max(pace.seconds(count) for pace, count in zip(paces, counts, strict=True))

    def _weights(self, way: TaskLayout, *, is_beside: bool) -> tuple[float, ...]:
        """Ask how long a stage anywhere would wait, in this group or in another.

        A replica waits for the slowest of its stages, and that time grows in proportion with a
        stage's layers, so the answers for one layer and for all hold all others.
        """
        if way.task is not Task.ACTOR_TRAINING:
            return ()
        machine_of = self.devices.gpu_machines
        key = (
            is_beside,
            tuple(
                tuple((machine_of[stage.gpus[0]], stage.num_layers) for stage in replica)
                for replica in way.replicas
            ),
        )
        if key not in self._asked:
            probes = self._probes()
            layouts = [
                Layout(((way, probe),)) if is_beside else Layout(((way,), (probe,)))
                for probe in probes
            ]
            self._asked[key] = tuple(
                max(
                    each.total_seconds
                    for each in WeightPaths(layout, self.evaluator.work, self.devices).syncs
                )
                for layout in layouts
            )
        return self._asked[key]

    def _probes(self) -> list[TaskLayout]:
        """Return a stage of one layer and one of all, on each possible block of each machine."""
        firsts, sizes = self.devices.first_gpus, self.devices.machine_sizes
        return [
            TaskLayout(
                Task.ACTOR_GENERATION,
                ((PipelineStage(tuple(range(first, first + tensor)), num_layers),),),
            )
            for first, size in zip(firsts, sizes, strict=False)
            for tensor in TENSOR_SIZES
            if tensor <= size
            for num_layers in (1, self.evaluator.work.architecture.num_layers)
        ]


def undominated(
    found: Iterable[Shared], *, respects: Callable[[Shared], Sequence[float]]
) -> list[Shared]:
    """Return those that no other is at least as good as in all respects; of equals, one."""
    members = list(found)
    if not members:
        return []
    table = np.array([respects(each) for each in members])
    kept: list[int] = []
    best = np.empty_like(table)
    # A way that dominates another has no larger sum, so it comes first.
    for number in np.lexsort((np.arange(len(members)), table.sum(axis=1))):
        row = table[number]
        if not np.any(np.all(best[: len(kept)] <= row, axis=1)):
            best[len(kept)] = row
            kept.append(int(number))
    return [members[number] for number in kept]
