"""Bytes on a GPU, by part: weights, gradients, optimizer, activations, KV cache, overhead.

A plan may not exceed a GPU's memory, so each part is counted at its largest.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hetrl_core.fleet.snapshot import GpuKind
from hetrl_core.plan.plan import MemoryUse, Recompute, Sharding, TrainingMode
from hetrl_core.task import Task, programs_of
from hetrl_planner.cost.shard import Shard
from hetrl_planner.problem.workload import Workload

WEIGHT_BYTES = 2
"""bf16: what generation holds, and what training's passes cast to."""

GRADIENT_BYTES = 4
"""fp32, like the parameters that they move."""

MASTER_AND_ADAM_BYTES = 12
"""An fp32 master weight and two fp32 moments (Rajbhandari et al., ZeRO, 2020, section 3.1)."""

SCORING_WEIGHT_BYTES = 4
"""Reference, reward and critic score in fp32, as this release loads them."""

LOGIT_BYTES = 20
"""Per token and vocabulary entry while training: bf16 logits and their gradient (4), and four
fp32 tensors between logits, log-probabilities, entropy and gradient (16)."""

MAX_TOKENS_PER_PASS = 16_384
MAX_LOGIT_BYTES_PER_PASS = 1 << 30
"""The trainer packs short sequences into one pass up to these two limits (fp32 logits)."""

OVERHEAD_SHARE = 0.10
"""Of device memory, for the CUDA context, NCCL's buffers, workspaces and fragmentation.
Ours; engines reserve as much (vLLM's gpu_memory_utilization of 0.9)."""

PROGRAM_BYTES = 1 << 30
"""CUDA's context, communication buffers and workspaces of each program on a GPU after the first,
whose own are in the share above. Ours."""

MAX_CONCURRENCY = 256
"""Sequences that one engine decodes together: vLLM's usual max_num_seqs."""


def overhead_bytes(kind: GpuKind) -> int:
    """Return the bytes that no part of the model may use."""
    return round(OVERHEAD_SHARE * kind.memory_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """One task's bytes on one GPU: those that stay, and those held only while it runs."""

    weights_bytes: float = 0.0
    gradients_bytes: float = 0.0
    optimizer_bytes: float = 0.0
    working_weights_bytes: float = 0.0
    """An engine's own copy, which it gives up while other tasks of the group run."""

    activations_bytes: float = 0.0
    kv_cache_bytes: float = 0.0
    program_bytes: float = 0.0
    """Of programs beside the first, whatever their task."""

    stays: bool = False
    """Whether it keeps everything while other tasks run: it has a program of its own."""

    @property
    def resident_bytes(self) -> float:
        """What stays."""
        kept = self.weights_bytes + self.gradients_bytes + self.optimizer_bytes
        return kept + self.program_bytes + (self._passing_bytes if self.stays else 0.0)

    @property
    def working_bytes(self) -> float:
        """Bytes held only while it runs."""
        return 0.0 if self.stays else self._passing_bytes

    @property
    def total_bytes(self) -> float:
        """Everything that exists while it runs."""
        return self.resident_bytes + self.working_bytes

    @property
    def is_engine(self) -> bool:
        """Whether it generates."""
        return self.working_weights_bytes > 0

    @property
    def _passing_bytes(self) -> float:
        return self.working_weights_bytes + self.activations_bytes + self.kv_cache_bytes


def together(tasks: Sequence[Footprint], kind: GpuKind) -> MemoryUse:
    """Return a GPU's memory with these tasks on it, which take turns.

    All that stays adds up; of what exists only while a task runs, the largest counts.
    """
    largest = max(range(len(tasks)), key=lambda number: tasks[number].working_bytes)
    present = [each for number, each in enumerate(tasks) if each.stays or number == largest]
    return MemoryUse(
        weights_bytes=round(sum(each.weights_bytes for each in tasks))
        + round(sum(each.working_weights_bytes for each in present)),
        gradients_bytes=round(sum(each.gradients_bytes for each in tasks)),
        optimizer_bytes=round(sum(each.optimizer_bytes for each in tasks)),
        activations_bytes=round(sum(each.activations_bytes for each in present)),
        kv_cache_bytes=round(sum(each.kv_cache_bytes for each in present)),
        overhead_bytes=overhead_bytes(kind) + round(sum(each.program_bytes for each in tasks)),
    )


def beside_generation(tasks: Sequence[Footprint], work: Workload) -> float:
    """Return the bytes that tasks other than generation take of a GPU while generation runs."""
    others = [each for each in tasks if not each.is_engine]
    kept = sum([each.resident_bytes for each in others])
    if not work.programs_stay:
        return kept
    return kept + max([each.working_bytes for each in others], default=0.0)


def more_programs(tasks: Iterable[Task], work: Workload) -> tuple[Footprint, ...]:
    """Return the bytes of a group's programs beside the first."""
    more = len(programs_of(tasks)) - 1 if work.programs_stay else 0
    return (Footprint(program_bytes=PROGRAM_BYTES * more),) if more > 0 else ()


def training_footprint(
    shard: Shard, work: Workload, *, mode: TrainingMode, num_replicas: int, passes_in_flight: int
) -> Footprint:
    """Return the trained model's bytes on one GPU.

    ``passes_in_flight`` is how many microbatches a pipeline stage has forwarded and not yet
    backwarded: the stages from it to the last, under 1F1B.
    """
    parameters = shard.num_parameters
    divided = 1 if mode.sharding is Sharding.NONE else num_replicas
    whole = num_replicas if mode.sharding is Sharding.FULL else 1
    activations = activation_bytes(
        shard, tokens=pass_tokens(work), passes_in_flight=passes_in_flight, recompute=mode.recompute
    )
    # What is gathered of divided weights: the layer at work and the one fetched ahead.
    gathered = 0.0 if whole == 1 else 2 * WEIGHT_BYTES * parameters / max(1, shard.num_layers)
    return Footprint(
        weights_bytes=WEIGHT_BYTES * parameters / whole,
        gradients_bytes=GRADIENT_BYTES * parameters / whole,
        optimizer_bytes=MASTER_AND_ADAM_BYTES * parameters / divided,
        activations_bytes=activations + gathered,
    )


def inference_footprint(
    shard: Shard, work: Workload, task: Task = Task.REFERENCE_INFERENCE
) -> Footprint:
    """Return a scoring model's bytes on one GPU; a reward model has a program of its own."""
    return Footprint(
        stays=work.programs_stay and task is Task.REWARD_INFERENCE,
        weights_bytes=SCORING_WEIGHT_BYTES * shard.num_parameters,
        activations_bytes=forward_activation_bytes(shard, tokens=pass_tokens(work)),
    )


def generation_footprint(shard: Shard, work: Workload, *, concurrency: float) -> Footprint:
    """Return an engine's bytes on one GPU with so many average sequences in its cache."""
    return Footprint(
        stays=work.programs_stay,
        working_weights_bytes=WEIGHT_BYTES * shard.num_parameters,
        activations_bytes=prefill_activation_bytes(shard, work),
        kv_cache_bytes=concurrency * work.sample_tokens * shard.kv_bytes_per_token,
    )


def pass_tokens(work: Workload) -> int:
    """Return the tokens of one training pass: short sequences together, or one long one."""
    by_logits = MAX_LOGIT_BYTES_PER_PASS // (4 * work.architecture.vocab_size)
    return max(work.max_sample_tokens, min(MAX_TOKENS_PER_PASS, by_logits))


def training_state_bytes(num_parameters: float) -> float:
    """Return the weights, gradients and optimizer state of so many trained parameters."""
    return (WEIGHT_BYTES + GRADIENT_BYTES + MASTER_AND_ADAM_BYTES) * num_parameters


def activation_bytes(
    shard: Shard, *, tokens: int, passes_in_flight: int, recompute: Recompute
) -> float:
    """Return the activations that a stage keeps for its backward passes.

    With full recomputation each layer keeps its input (``2·s·h`` bytes) for every pass in
    flight, and only the layer being recomputed keeps everything; without, all layers do. The
    last stage adds the logits. After Korthikanti et al. (2022, section 4).
    """
    inputs = 2 * tokens * shard.architecture.hidden_size
    whole_layers = 1 if recompute is Recompute.FULL else shard.num_layers * passes_in_flight
    logits = (
        LOGIT_BYTES * tokens * shard.architecture.vocab_size / shard.tensor if shard.is_last else 0
    )
    kept_inputs = inputs * shard.num_layers * passes_in_flight
    return kept_inputs + whole_layers * layer_bytes(shard, tokens=tokens) + logits


def layer_bytes(shard: Shard, *, tokens: int) -> float:
    """Return all that one layer's backward pass needs.

    Normalised inputs and residuals (4h), queries, keys, values and attention output
    (2q + 2kv), gate, up and their product (3f), two bytes each, divided by tp but for the
    first. Korthikanti et al. (2022, section 4), counted again for gated feed-forward layers and
    attention that never stores its scores.
    """
    model = shard.architecture
    query = model.num_query_heads * model.head_dim
    key_value = model.num_kv_heads * model.head_dim
    divided = (2 * query + 2 * key_value + 3 * model.ffn_size) / shard.tensor
    return 2 * tokens * (4 * model.hidden_size + divided)


def forward_activation_bytes(shard: Shard, *, tokens: int) -> float:
    """Return the working memory of a pass that keeps nothing: one layer's, and fp32 logits."""
    logits = 4 * tokens * shard.architecture.vocab_size / shard.tensor if shard.is_last else 0
    return layer_bytes(shard, tokens=tokens) + logits


def prefill_activation_bytes(shard: Shard, work: Workload) -> float:
    """Return the working memory of one forward pass: a layer's widest values and fp32 logits."""
    model = shard.architecture
    widest = 2 * work.max_prompt_tokens * (2 * model.hidden_size + 2 * model.ffn_size)
    logits = 4 * MAX_CONCURRENCY * model.vocab_size / shard.tensor if shard.is_last else 0
    return widest + logits


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRoom:
    """A GPU's room for the cache of a stage that generates."""

    free_bytes: float
    """Beside the engine's own weights and activations."""

    longest_bytes: float
    """Of the longest sequence."""

    sequence_bytes: float
    """Of an average one."""

    def concurrency(self, *, beside_bytes: float) -> int:
        """Return how many average sequences fit beside what other tasks keep, 0 if not even one.

        The longest sequence must fit alone: an engine that cannot finish it would stop.
        """
        cache_bytes = self.free_bytes - beside_bytes
        if cache_bytes < self.longest_bytes:
            return 0
        return min(MAX_CONCURRENCY, int(cache_bytes // self.sequence_bytes))


def cache_room(shard: Shard, kind: GpuKind, work: Workload) -> CacheRoom:
    """Return the bytes of a GPU left for keys and values."""
    fixed = generation_footprint(shard, work, concurrency=0).total_bytes
    return CacheRoom(
        free_bytes=kind.memory_bytes - overhead_bytes(kind) - fixed,
        longest_bytes=work.max_sample_tokens * shard.kv_bytes_per_token,
        sequence_bytes=work.sample_tokens * shard.kv_bytes_per_token,
    )


def max_concurrency(
    shard: Shard, kind: GpuKind, work: Workload, *, beside_bytes: float = 0.0
) -> int:
    """Return how many average sequences the KV cache holds beside what other tasks keep."""
    return cache_room(shard, kind, work).concurrency(beside_bytes=beside_bytes)
