"""Every way in which one task can use some of the GPUs, from the definition of a layout.

Sets of disjoint replicas; replicas of stages in every order; stages of equally many GPUs of one
machine; every composition of the layers. Replicas that train are cut alike and may be on any
machines; others each keep to one site. Two layouts that differ by the order of replicas, or
of the GPUs within a stage, are one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from hetrl_core.plan.plan import Recompute, Sharding, TrainingMode
from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.layout import PipelineStage, ReplicaLayout, TaskLayout

TENSOR_SIZES = (1, 2, 4, 8)

ALONE = tuple(TrainingMode(recompute=recompute) for recompute in Recompute)
TOGETHER = tuple(
    TrainingMode(recompute=recompute, sharding=sharding)
    for recompute in Recompute
    for sharding in Sharding
)
"""The mode of one replica, which has nothing to divide."""


@dataclass(frozen=True)
class Cuts:
    """The ways of one model on some devices."""

    devices: Devices
    num_layers: int
    num_heads: int

    def layouts(self, task: Task) -> Iterator[TaskLayout]:
        """Yield every way to do a task, on every subset of the GPUs."""
        everywhere = frozenset(range(self.devices.num_gpus))
        if task not in TRAINING_TASKS:
            for replicas in self._sets(everywhere, None):
                if replicas:
                    yield TaskLayout(task, replicas)
            return
        for cut in self._alike():
            for replicas in self._sets(everywhere, cut):
                for mode in (ALONE, TOGETHER)[len(replicas) > 1] if replicas else ():
                    yield TaskLayout(task, replicas, mode)

    def _alike(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield every tensor size with every composition of the layers."""
        for tensor in self._tensor_sizes():
            for num_stages in range(1, self.num_layers + 1):
                for layers in compositions(self.num_layers, num_stages):
                    yield tensor, layers

    def _sets(
        self, free: frozenset[int], cut: tuple[int, tuple[int, ...]] | None
    ) -> Iterator[tuple[ReplicaLayout, ...]]:
        """Yield every set of disjoint replicas, of one cut or of any; the empty one too."""
        if not free:
            yield ()
            return
        first = min(free)
        others = free - {first}
        yield from self._sets(others, cut)
        for size in range(len(free)):
            for beside in combinations(sorted(others), size):
                gpus = frozenset({first, *beside})
                if cut is None and len(self._sites(gpus)) > 1:
                    continue
                for replica in self._replicas(gpus, cut):
                    for rest in self._sets(others - set(beside), cut):
                        yield (replica, *rest)

    def _replicas(
        self, gpus: frozenset[int], cut: tuple[int, tuple[int, ...]] | None
    ) -> Iterator[ReplicaLayout]:
        """Yield every replica on exactly these GPUs."""
        for tensor in self._tensor_sizes() if cut is None else (cut[0],):
            num_stages, rest = divmod(len(gpus), tensor)
            if rest or (cut and num_stages != len(cut[1])):
                continue
            chosen = compositions(self.num_layers, num_stages) if cut is None else [cut[1]]
            for layers in chosen:
                for blocks in self._blocks(gpus, tensor):
                    yield tuple(map(PipelineStage, blocks, layers))

    def _blocks(self, gpus: frozenset[int], size: int) -> Iterator[tuple[tuple[int, ...], ...]]:
        """Yield every sequence of blocks of one machine each that uses all the GPUs."""
        if not gpus:
            yield ()
            return
        for block in combinations(sorted(gpus), size):
            if len({self.devices.gpu_machines[gpu] for gpu in block}) == 1:
                for rest in self._blocks(gpus - set(block), size):
                    yield (block, *rest)

    def _sites(self, gpus: frozenset[int]) -> set[int]:
        return {self.devices.machine_sites[self.devices.gpu_machines[gpu]] for gpu in gpus}

    def _tensor_sizes(self) -> list[int]:
        return [size for size in TENSOR_SIZES if self.num_heads % size == 0]


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to write a number as an ordered sum of positive ones."""
    if parts == 1:
        if total:
            yield (total,)
        return
    for first in range(1, total - parts + 2):
        for rest in compositions(total - first, parts - 1):
            yield (first, *rest)
