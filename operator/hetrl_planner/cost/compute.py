"""Seconds on a GPU: FLOPs against peak, and bytes against HBM bandwidth (the roofline).

For one shard and one pass over it. Roofline after Williams, Waterman and Patterson (2009);
FLOP counts after PaLM (Chowdhery et al., 2022, appendix B): 2 per parameter and token
forward, 4 backward, and attention on top.
"""

from typing import Protocol

from hetrl_core.fleet.snapshot import GpuKind
from hetrl_core.plan.plan import Recompute
from hetrl_planner.cost.shard import Shard

BYTES_PER_WEIGHT = 2
"""bf16."""

OPTIMIZER_BYTES_PER_PARAMETER = 30
"""Adam in mixed precision reads gradient (2), master and two moments (12), and writes
weight (2) and master and moments (12); zeroing the gradient writes 2 more."""


class DecodeTerm(Protocol):
    """One side of the decoding roofline."""

    def __call__(
        self, shard: Shard, kind: GpuKind, *, sequences: float, context_tokens: float
    ) -> float:
        """Return its seconds for one token of each sequence."""


def forward_flops(shard: Shard, *, tokens: float, context_tokens: float) -> float:
    """Return the FLOPs of ``tokens`` tokens that each attend to ``context_tokens``.

    ``2·P·s + 4·l·(h_q·d)·s·c / tp``: products with the weights, then the two products of
    attention, scores and values.
    """
    model = shard.architecture
    query_size = model.num_query_heads * model.head_dim
    attention = 4 * shard.num_layers * query_size * tokens * context_tokens / shard.tensor
    return 2 * shard.multiplied_parameters * tokens + attention


def flop_seconds(flops: float, kind: GpuKind) -> float:
    """Return the time of large matrix products: FLOPs over the share of peak they reach."""
    return flops / (kind.bf16_flops * kind.compute_efficiency)


def hbm_seconds(size_bytes: float, kind: GpuKind) -> float:
    """Return the time to stream bytes from device memory."""
    return size_bytes / (kind.hbm_bytes_per_second * kind.memory_efficiency)


def prefill_seconds(shard: Shard, kind: GpuKind, *, prompt_tokens: int) -> float:
    """Return the time to read one prompt; a token attends to half of it on average."""
    flops = forward_flops(shard, tokens=prompt_tokens, context_tokens=prompt_tokens / 2)
    return flop_seconds(flops, kind)


def decode_flop_seconds(
    shard: Shard, kind: GpuKind, *, sequences: float, context_tokens: float
) -> float:
    """Return the arithmetic side of decoding one token of each sequence."""
    return flop_seconds(forward_flops(shard, tokens=sequences, context_tokens=context_tokens), kind)


def decode_hbm_seconds(
    shard: Shard, kind: GpuKind, *, sequences: float, context_tokens: float
) -> float:
    """Return the memory side: all weights once, and each sequence's keys and values."""
    weights = BYTES_PER_WEIGHT * shard.multiplied_parameters
    return hbm_seconds(weights + sequences * context_tokens * shard.kv_bytes_per_token, kind)


def training_seconds(
    shard: Shard, kind: GpuKind, *, tokens: int, recompute: Recompute, forward_only_passes: int
) -> float:
    """Return the time to train on one sequence.

    Forward, backward at twice a forward, and with full recomputation forward again: four
    forwards' worth (8 FLOPs per parameter and token), three without. One more for each pass
    that only scores, as the proximal policy's does.
    """
    forward = forward_flops(shard, tokens=tokens, context_tokens=tokens / 2)
    return flop_seconds((forwards_of(recompute) + forward_only_passes) * forward, kind)


def forwards_of(recompute: Recompute) -> int:
    """Return how many forward passes a sequence's gradient is worth."""
    return 4 if recompute is Recompute.FULL else 3


def optimizer_seconds(shard: Shard, kind: GpuKind) -> float:
    """Return the time of one Adam update, which only moves bytes."""
    return hbm_seconds(OPTIMIZER_BYTES_PER_PARAMETER * shard.num_parameters, kind)
