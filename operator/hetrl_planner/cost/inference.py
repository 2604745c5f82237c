"""Time to score a batch: reference, reward and critic inference.

One forward pass over whole trajectories, nothing kept for a backward pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hetrl_planner.cost import compute
from hetrl_planner.cost.network import all_reduce_seconds, inside_machine, transfer_seconds
from hetrl_planner.cost.stage import PlacedStage
from hetrl_planner.problem.workload import Workload

FORWARD_ALL_REDUCES = 2
"""A layer (Shoeybi et al., Megatron-LM, 2019)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """A pipeline's time for ``n`` sequences: ``fixed + n·slot``."""

    slot_seconds: float
    """A turn of the slowest stage, its message to the next included."""

    fixed_seconds: float
    """The other stages' turns, while the pipeline fills and drains, and what comes once."""

    def seconds(self, sequences: float) -> float:
        """Return the time for so many sequences; none take no time."""
        return self.fixed_seconds + sequences * self.slot_seconds if sequences else 0.0


def pace_of(turns: Sequence[float]) -> Pace:
    """Return the pace of a pipeline whose stages take these turns for one sequence.

    ``(n - 1)·max + sum``: the cost of GPipe and 1F1B with uneven stages (Metis,
    ``cost_estimator``); with even ones it is the ``(n + p - 1)`` turns of Narayanan et al. (2021).
    """
    slot = max(turns)
    return Pace(slot_seconds=slot, fixed_seconds=sum(turns) - slot)


def inference_pace(work: Workload, stages: Sequence[PlacedStage]) -> Pace:
    """Return the pace of a replica that scores trajectories."""
    return pace_of([_turn_seconds(stage, work) for stage in stages])


def hidden_bytes(work: Workload) -> float:
    """Return the hidden states of one trajectory."""
    return work.sample_tokens * work.architecture.hidden_size * compute.BYTES_PER_WEIGHT


def _turn_seconds(stage: PlacedStage, work: Workload) -> float:
    tokens = work.sample_tokens
    flops = compute.forward_flops(stage.shard, tokens=tokens, context_tokens=tokens / 2)
    reduces = all_reduce_seconds(
        hidden_bytes(work), members=stage.shard.tensor, channel=inside_machine(stage.kind)
    )
    hop = transfer_seconds(hidden_bytes(work), stage.hop) if stage.hop else 0.0
    return (
        compute.flop_seconds(flops, stage.kind)
        + FORWARD_ALL_REDUCES * stage.shard.num_layers * reduces
        + hop
    )
