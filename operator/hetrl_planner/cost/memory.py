"""Bytes on a GPU, by part: weights, gradients, optimizer, activations, KV cache, overhead.

A plan may not exceed a GPU's memory, so each part is counted at its largest.
"""

from hetrl_core.cluster import GpuKind
from hetrl_core.plan import MemoryUse
from hetrl_planner.cost.shard import Shard
from hetrl_planner.workload import Workload

WEIGHT_BYTES = 2
"""bf16: what generation holds, and what training's passes cast to."""

GRADIENT_BYTES = 4
"""fp32, like the parameters that they move."""

MASTER_AND_ADAM_BYTES = 12
"""An fp32 master weight and two fp32 moments (Rajbhandari et al., ZeRO, 2020, section 3.1)."""

REFERENCE_BYTES = 4
"""A frozen reference is loaded in fp32, as the policy is."""

LOGIT_BYTES = 20
"""Per token and vocabulary entry while training: bf16 logits and their gradient (4), and four
fp32 tensors between logits, log-probabilities, entropy and gradient (16)."""

MAX_TOKENS_PER_PASS = 16_384
MAX_LOGIT_BYTES_PER_PASS = 1 << 30
"""The trainer packs short sequences into one pass up to these two limits (fp32 logits)."""

OVERHEAD_SHARE = 0.10
"""Of device memory, for the CUDA context, NCCL's buffers, workspaces and fragmentation.
Ours; engines reserve as much (vLLM's gpu_memory_utilization of 0.9)."""

MAX_CONCURRENCY = 256
"""Sequences that one engine decodes together: vLLM's usual max_num_seqs."""


def overhead_bytes(kind: GpuKind) -> int:
    """Return what no part of the model may use."""
    return round(OVERHEAD_SHARE * kind.memory_bytes)


def training_memory(
    shard: Shard, kind: GpuKind, work: Workload, *, passes_in_flight: int
) -> MemoryUse:
    """Return one trainer GPU's memory, with full recomputation.

    ``passes_in_flight`` is how many microbatches a pipeline stage has forwarded and not yet
    backwarded: the stages from it to the last, under 1F1B.
    """
    parameters = shard.num_parameters
    reference = REFERENCE_BYTES * parameters if work.has_reference else 0
    return MemoryUse(
        weights_bytes=round(WEIGHT_BYTES * parameters + reference),
        gradients_bytes=round(GRADIENT_BYTES * parameters),
        optimizer_bytes=round(MASTER_AND_ADAM_BYTES * parameters),
        activations_bytes=round(
            activation_bytes(shard, tokens=pass_tokens(work), passes_in_flight=passes_in_flight)
        ),
        overhead_bytes=overhead_bytes(kind),
    )


def pass_tokens(work: Workload) -> int:
    """Return the tokens of one training pass: short sequences together, or one long one."""
    by_logits = MAX_LOGIT_BYTES_PER_PASS // (4 * work.architecture.vocab_size)
    return max(work.max_sample_tokens, min(MAX_TOKENS_PER_PASS, by_logits))


def training_state_bytes(num_parameters: float) -> float:
    """Return the weights, gradients and optimizer state of so many trained parameters."""
    return (WEIGHT_BYTES + GRADIENT_BYTES + MASTER_AND_ADAM_BYTES) * num_parameters


def activation_bytes(shard: Shard, *, tokens: int, passes_in_flight: int) -> float:
    """Return the activations of a stage under full recomputation.

    Each layer keeps its input (``2·s·h`` bytes), for every pass in flight; the layer
    being recomputed keeps everything: normalised inputs and residuals (4h), queries, keys,
    values and attention output (2q + 2kv), gate, up and their product (3f), two bytes
    each, divided by tp but for the first. Korthikanti et al. (2022, section 4), counted
    again for gated feed-forward layers and attention that never stores its scores. The
    last stage adds the logits.
    """
    model = shard.architecture
    query = model.num_query_heads * model.head_dim
    key_value = model.num_kv_heads * model.head_dim
    inputs = 2 * tokens * model.hidden_size * shard.num_layers * passes_in_flight
    divided = (2 * query + 2 * key_value + 3 * model.ffn_size) / shard.tensor
    working_layer = 2 * tokens * (4 * model.hidden_size + divided)
    logits = LOGIT_BYTES * tokens * model.vocab_size / shard.tensor if shard.is_last else 0
    return inputs + working_layer + logits


def generation_memory(
    shard: Shard, kind: GpuKind, work: Workload, *, concurrency: int
) -> MemoryUse:
    """Return one rollout GPU's memory with ``concurrency`` average sequences in its cache."""
    return MemoryUse(
        weights_bytes=round(WEIGHT_BYTES * shard.num_parameters),
        activations_bytes=round(prefill_activation_bytes(shard, work)),
        kv_cache_bytes=round(concurrency * work.sample_tokens * shard.kv_bytes_per_token),
        overhead_bytes=overhead_bytes(kind),
    )


def prefill_activation_bytes(shard: Shard, work: Workload) -> float:
    """Return the working memory of one forward pass: a layer's widest values and fp32 logits."""
    model = shard.architecture
    widest = 2 * work.max_prompt_tokens * (2 * model.hidden_size + 2 * model.ffn_size)
    logits = 4 * MAX_CONCURRENCY * model.vocab_size / shard.tensor if shard.is_last else 0
    return widest + logits


def max_concurrency(shard: Shard, kind: GpuKind, work: Workload) -> int:
    """Return how many average sequences the KV cache holds; 0 where even one does not fit.

    The longest sequence must fit alone: an engine that cannot finish it would stop.
    """
    fixed = generation_memory(shard, kind, work, concurrency=0).total_bytes
    cache_bytes = kind.memory_bytes - fixed
    if cache_bytes < work.max_sample_tokens * shard.kv_bytes_per_token:
        return 0
    held = int(cache_bytes // (work.sample_tokens * shard.kv_bytes_per_token))
    return min(MAX_CONCURRENCY, held)
