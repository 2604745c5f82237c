"""GPUs in rank order, and the uniform ways to cut a model over them.

What frameworks without a planner know: one tensor and one pipeline size for all replicas of a
task, layers divided evenly. Which GPUs a pool has is each policy's choice.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from hetrl_core.plan.plan import Sharding, TrainingMode
from hetrl_core.task import Task
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.layout import PipelineStage, ReplicaLayout, TaskLayout
from hetrl_planner.problem.workload import Workload

TENSOR_SIZES = (1, 2, 4, 8)
STAGE_COUNTS = (1, 2, 4, 8)

Block = tuple[int, ...]
"""GPUs of one machine that hold one stage."""


@dataclass(frozen=True, slots=True)
class Pool:
    """GPUs of some machines, in the order in which ranks get them."""

    machines: tuple[tuple[int, int, int], ...]
    """Machine, number of its first GPU in the pool, and how many."""

    @property
    def num_gpus(self) -> int:
        """All of them."""
        return sum(count for _, _, count in self.machines)

    @property
    def gpus(self) -> frozenset[int]:
        """Their numbers."""
        return frozenset(gpu for block in self.blocks(1) for gpu in block)

    def blocks(self, size: int) -> list[Block]:
        """Return blocks of so many GPUs of one machine, in rank order."""
        return [
            tuple(range(first + index * size, first + (index + 1) * size))
            for _, first, count in self.machines
            for index in range(count // size)
        ]

    def head(self, num_gpus: int) -> "Pool":
        """Return the first GPUs."""
        return self._between(0, num_gpus)

    def tail(self, num_gpus: int) -> "Pool":
        """Return all but the first GPUs."""
        return self._between(num_gpus, self.num_gpus)

    def _between(self, start: int, end: int) -> "Pool":
        found, before = [], 0
        for machine, first, count in self.machines:
            low, high = max(start - before, 0), min(end - before, count)
            if low < high:
                found.append((machine, first + low, high - low))
            before += count
        return Pool(tuple(found))


def pool(devices: Devices, machines: Iterable[int]) -> Pool:
    """Return whole machines as a pool, in the order given."""
    return Pool(
        tuple(
            (machine, devices.first_gpus[machine], devices.machine_sizes[machine])
            for machine in machines
        )
    )


def rank_order(devices: Devices) -> tuple[int, ...]:
    """Return all machines as the fleet lists them: what a launcher without a planner does."""
    listed = [machine.name for machine in devices.snapshot.machines]
    return tuple(
        sorted(
            range(devices.num_machines),
            key=lambda machine: listed.index(devices.machine_names[machine]),
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """One uniform way to train."""

    tensor: int
    num_stages: int
    mode: TrainingMode
    replicas_first: bool = True
    """Megatron-LM's default rank order, tp-dp-pp: neighbours hold one stage of several replicas.
    Otherwise tp-pp-dp: neighbours hold one replica."""

    @property
    def is_fsdp(self) -> bool:
        """Whether everything is divided over all ranks, and nothing otherwise."""
        return self.mode.sharding is Sharding.FULL and self.tensor == self.num_stages == 1


def training(task: Task, gpus: Pool, work: Workload, cut: Cut) -> TaskLayout | None:
    """Return a training task on as many GPUs of a pool as whole replicas take."""
    blocks, stages = gpus.blocks(cut.tensor), cut.num_stages
    per_minibatch = -(-work.batch_size // work.minibatches)
    dp = min(len(blocks) // stages, per_minibatch)
    heads, layers = work.architecture.num_query_heads, work.architecture.num_layers
    if not dp or heads % cut.tensor or stages > layers:
        return None
    replicas = [
        [
            blocks[stage * dp + rank if cut.replicas_first else rank * stages + stage]
            for stage in range(stages)
        ]
        for rank in range(dp)
    ]
    mode = cut.mode if dp > 1 else TrainingMode(recompute=cut.mode.recompute)
    counts = _even(layers, stages)
    return TaskLayout(task, tuple(_replica(each, counts) for each in replicas), mode)


def serving(task: Task, gpus: Pool, work: Workload, *, tensor: int) -> TaskLayout | None:
    """Return a task that generates or scores, every replica on as many GPUs of one machine."""
    blocks = gpus.blocks(tensor)
    if not blocks or work.architecture.num_query_heads % tensor:
        return None
    counts = (work.architecture.num_layers,)
    return TaskLayout(task, tuple(_replica([block], counts) for block in blocks))


def _replica(blocks: Iterable[Block], counts: Iterable[int]) -> ReplicaLayout:
    return tuple(PipelineStage(block, count) for block, count in zip(blocks, counts, strict=True))


def _even(layers: int, stages: int) -> tuple[int, ...]:
    return tuple(layers // stages + (stage < layers % stages) for stage in range(stages))
