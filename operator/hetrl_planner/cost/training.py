"""How long the trainer takes for one policy version, term by term.

Data-parallel replicas of tensor- and pipeline-parallel models, one sequence a microbatch.
"""

from dataclasses import dataclass
from math import ceil

from hetrl_core.cluster import GpuKind
from hetrl_core.plan import Parallelism
from hetrl_planner.cost import compute
from hetrl_planner.cost.network import Channel, all_reduce_seconds, inside_machine, transfer_seconds
from hetrl_planner.cost.shard import Shard, shards
from hetrl_planner.workload import Workload

TENSOR_PARALLEL_ALL_REDUCES = 6
"""A layer: two forward, two backward (Shoeybi et al., 2019), two more to recompute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingTime:
    """Seconds of one policy version's training."""

    compute_seconds: float
    tensor_parallel_seconds: float
    pipeline_seconds: float
    """Bubble and hops between stages."""

    data_parallel_seconds: float
    optimizer_seconds: float

    @property
    def total_seconds(self) -> float:
        """All terms together: nothing is assumed to overlap."""
        return (
            self.compute_seconds
            + self.tensor_parallel_seconds
            + self.pipeline_seconds
            + self.data_parallel_seconds
            + self.optimizer_seconds
        )

    @property
    def binding(self) -> str:
        """Name the largest term."""
        terms = {
            "compute": self.compute_seconds,
            "tensor-parallel communication": self.tensor_parallel_seconds,
            "pipeline bubble": self.pipeline_seconds,
            "gradient all-reduce": self.data_parallel_seconds,
            "HBM bandwidth of the optimizer": self.optimizer_seconds,
        }
        return max(terms, key=lambda name: terms[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingChannels:
    """The wires that training uses."""

    stage: Channel
    """Between neighbouring pipeline stages."""

    data: Channel
    """The slowest wire of the gradients' ring."""

    data_leaves_machine: bool
    """Whether that ring crosses machines, where all GPUs of one share the way out."""


def training_time(
    work: Workload,
    kind: GpuKind,
    parallelism: Parallelism,
    *,
    num_replicas: int,
    channels: TrainingChannels,
) -> TrainingTime:
    """Return the time to train on one batch, with the replica that has the most of it.

    A pipeline of ``p`` stages and ``m`` microbatches takes ``(m + p - 1)`` turns of its
    slowest stage (GPipe and 1F1B alike; Narayanan et al., 2021, section 2.2).
    """
    stages = shards(work.architecture, parallelism)
    per_minibatch = ceil(ceil(work.batch_size / work.minibatches) / num_replicas)
    turns = work.minibatches * per_minibatch
    bubble_turns = work.minibatches * (parallelism.num_stages - 1)
    products = max(_sequence_seconds(stage, kind, work) for stage in stages)
    reduces = max(_tensor_parallel_seconds(stage, kind, work) for stage in stages)
    hops = 0.0
    if parallelism.num_stages > 1:
        hops = 2 * transfer_seconds(_hidden_bytes(work), channels.stage)
    return TrainingTime(
        compute_seconds=turns * products,
        tensor_parallel_seconds=turns * reduces,
        pipeline_seconds=bubble_turns * (products + reduces) + (turns + bubble_turns) * hops,
        data_parallel_seconds=work.minibatches
        * max(_data_parallel_seconds(stage, num_replicas, channels) for stage in stages),
        optimizer_seconds=work.minibatches
        * max(compute.optimizer_seconds(stage, kind) for stage in stages),
    )


def _sequence_seconds(stage: Shard, kind: GpuKind, work: Workload) -> float:
    # The proximal policy's log-probabilities are computed once per version, and the
    # reference's too where there is one.
    return compute.training_seconds(
        stage,
        kind,
        tokens=work.sample_tokens,
        forward_only_passes=1 + int(work.has_reference),
    )


def _tensor_parallel_seconds(stage: Shard, kind: GpuKind, work: Workload) -> float:
    once = all_reduce_seconds(
        _hidden_bytes(work), members=stage.tensor, channel=inside_machine(kind)
    )
    return TENSOR_PARALLEL_ALL_REDUCES * stage.num_layers * once


def _data_parallel_seconds(stage: Shard, num_replicas: int, channels: TrainingChannels) -> float:
    """Return the time to sum one stage's gradients over the replicas.

    Inside a machine each tensor rank has its own ring over its own wires; out of it, the
    rings of all ranks share one network card, so the whole stage's bytes pass it.
    """
    sharing = stage.tensor if channels.data_leaves_machine else 1
    size_bytes = compute.BYTES_PER_WEIGHT * stage.num_parameters * sharing
    return all_reduce_seconds(size_bytes, members=num_replicas, channel=channels.data)


def _hidden_bytes(work: Workload) -> float:
    return work.sample_tokens * work.architecture.hidden_size * compute.BYTES_PER_WEIGHT
