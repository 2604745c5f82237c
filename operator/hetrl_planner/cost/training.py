"""Training time of one policy version, term by term.

Data-parallel replicas of tensor- and pipeline-parallel models, one sequence a microbatch.
Stages know their GPUs; ``shares`` divides the sequences.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from hetrl_core.plan.plan import Recompute, Sharding, TrainingMode
from hetrl_planner.cost import compute
from hetrl_planner.cost.inference import Pace, hidden_bytes
from hetrl_planner.cost.memory import pass_tokens
from hetrl_planner.cost.network import (
    Channel,
    all_gather_seconds,
    all_reduce_seconds,
    inside_machine,
    transfer_seconds,
)
from hetrl_planner.cost.stage import PlacedStage
from hetrl_planner.problem.workload import Workload

ALL_REDUCES = {Recompute.FULL: 6, Recompute.NONE: 4}
"""A layer: two forward, two backward (Shoeybi et al., 2019), two more to recompute."""


PROXIMAL_PASSES = 1
"""Passes without a gradient: the proximal policy's log-probabilities, once per version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingTime:
    """Seconds of one policy version's training."""

    compute_seconds: float
    tensor_parallel_seconds: float
    pipeline_seconds: float
    """Bubble and hops between stages."""

    data_parallel_seconds: float
    optimizer_seconds: float
    proximal_seconds: float = 0.0
    """Part of the computing: a policy's passes before its first gradient. A critic has none."""

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
class Ring:
    """The ring over which the replicas of one stage sum their gradients."""

    members: int
    channel: Channel
    """Its slowest wire."""

    wire_bytes: float
    """bf16 gradients of all rings that share that wire: inside a machine each tensor rank has
    wires of its own, out of it all share one network card."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One stage's time for one sequence."""

    compute_seconds: float
    tensor_parallel_seconds: float
    hop_seconds: float

    @property
    def total_seconds(self) -> float:
        """All of it."""
        return self.compute_seconds + self.tensor_parallel_seconds + self.hop_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPipeline:
    """One training replica's turns: the slowest stage's, and what comes beside them."""

    slowest: Turn
    others_seconds: float
    """The other stages' turns, once a minibatch, while the pipeline fills and drains."""

    optimizer_seconds: float
    """Of its slowest stage, once a minibatch."""

    @property
    def pace(self) -> Pace:
        """The replica's time for one minibatch of ``n`` sequences."""
        return Pace(
            slot_seconds=self.slowest.total_seconds,
            fixed_seconds=self.others_seconds + self.optimizer_seconds,
        )


def pipeline(
    work: Workload, stages: Sequence[PlacedStage], *, recompute: Recompute
) -> TrainingPipeline:
    """Return the turns of one training replica."""
    return pipeline_of(
        [turn(stage, work, recompute) for stage in stages],
        [compute.optimizer_seconds(stage.shard, stage.kind) for stage in stages],
    )


def pipeline_of(turns: Sequence[Turn], optimizer_seconds: Sequence[float]) -> TrainingPipeline:
    """Return the turns of a replica whose stages take turns and updates of these."""
    seconds = [each.total_seconds for each in turns]
    longest = max(seconds)
    return TrainingPipeline(
        slowest=turns[seconds.index(longest)],
        others_seconds=sum(seconds) - longest,
        optimizer_seconds=max(optimizer_seconds),
    )


def training_time(
    work: Workload,
    shares: Sequence[tuple[TrainingPipeline, int]],
    rings: Sequence[Ring],
    *,
    mode: TrainingMode,
) -> TrainingTime:
    """Return the time to train on one batch.

    ``shares`` are replicas and the sequences that each has of a minibatch, at least of those
    that may end last; all others wait for them. ``rings`` know how many replicas there are.
    """
    slowest, sequences = max(shares, key=lambda share: share[0].pace.seconds(share[1]))
    turns = work.minibatches * sequences
    passes = ceil(max(share[1] for share in shares) * work.sample_tokens / pass_tokens(work))
    # Each replica updates only its part where the optimizer is divided.
    updates = 1 if mode.sharding is Sharding.NONE else rings[0].members
    compute_seconds = turns * slowest.slowest.compute_seconds
    return TrainingTime(
        compute_seconds=compute_seconds,
        tensor_parallel_seconds=turns * slowest.slowest.tensor_parallel_seconds,
        pipeline_seconds=turns * slowest.slowest.hop_seconds
        + work.minibatches * slowest.others_seconds,
        data_parallel_seconds=work.minibatches
        * max(data_parallel_seconds(ring, mode.sharding, passes=passes) for ring in rings),
        optimizer_seconds=work.minibatches * slowest.optimizer_seconds / updates,
        proximal_seconds=compute_seconds
        * PROXIMAL_PASSES
        / (compute.forwards_of(mode.recompute) + PROXIMAL_PASSES),
    )


def proximal_seconds(work: Workload, stages: Sequence[PlacedStage]) -> float:
    """Return the seconds of a policy on one sequence before its first gradient."""
    tokens = work.sample_tokens
    return PROXIMAL_PASSES * max(
        compute.flop_seconds(
            compute.forward_flops(stage.shard, tokens=tokens, context_tokens=tokens / 2), stage.kind
        )
        for stage in stages
    )


def data_parallel_seconds(ring: Ring, sharding: Sharding, *, passes: int) -> float:
    """Return a minibatch's traffic among data-parallel replicas.

    An all-reduce of the gradients; ZeRO-1 replaces it by a reduce-scatter and an all-gather
    of as many bytes. With everything divided, weights are gathered again for the forward and
    the backward of each pass (Rajbhandari et al., ZeRO, 2020, section 7).
    """
    gradients = all_reduce_seconds(ring.wire_bytes, members=ring.members, channel=ring.channel)
    if sharding is not Sharding.FULL:
        return gradients
    gather = all_gather_seconds(ring.wire_bytes, members=ring.members, channel=ring.channel)
    # The gradients are only scattered: half of an all-reduce.
    return gradients / 2 + 2 * passes * gather


def turn(stage: PlacedStage, work: Workload, recompute: Recompute) -> Turn:
    """Return one stage's time to train on one sequence."""
    once = all_reduce_seconds(
        hidden_bytes(work), members=stage.shard.tensor, channel=inside_machine(stage.kind)
    )
    hop = 2 * transfer_seconds(hidden_bytes(work), stage.hop) if stage.hop else 0.0
    return Turn(
        compute_seconds=compute.training_seconds(
            stage.shard,
            stage.kind,
            tokens=work.sample_tokens,
            recompute=recompute,
            forward_only_passes=PROXIMAL_PASSES,
        ),
        tensor_parallel_seconds=ALL_REDUCES[recompute] * stage.shard.num_layers * once,
        hop_seconds=hop,
    )
