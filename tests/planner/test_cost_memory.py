from dataclasses import replace

import pytest

from hetrl_core.fleet.snapshot import GpuKind
from hetrl_core.plan.plan import MemoryUse, Parallelism, Recompute, Sharding, TrainingMode
from hetrl_core.units import GIB
from hetrl_planner.cost import memory
from hetrl_planner.cost.shard import Shard, shards
from hetrl_planner.problem.workload import Workload, workload
from tests.builders import ARCHITECTURES, a_job, a_kind


def work(model: str = "Qwen3-8B", **changes: object) -> Workload:
    return replace(workload(a_job(model), ARCHITECTURES[model]), **changes)  # type: ignore[arg-type]


def whole(model: str = "Qwen3-8B", tensor: int = 1) -> Shard:
    layers = ARCHITECTURES[model].num_layers
    (shard,) = shards(ARCHITECTURES[model], Parallelism(tensor=tensor, stage_layers=(layers,)))
    return shard


def trained(
    *,
    replicas: int = 1,
    sharding: Sharding = Sharding.NONE,
    recompute: Recompute = Recompute.FULL,
) -> memory.Footprint:
    mode = TrainingMode(sharding=sharding, recompute=recompute)
    return memory.training_footprint(
        whole(), work(), mode=mode, num_replicas=replicas, passes_in_flight=1
    )


def test_training_state_is_eighteen_bytes_a_parameter() -> None:
    assert trained().resident_bytes == pytest.approx(18 * 8.191e9, rel=1e-3)


@pytest.mark.parametrize(
    ("sharding", "bytes_per_parameter"),
    [
        pytest.param(Sharding.NONE, 18, id="every replica holds all"),
        pytest.param(Sharding.OPTIMIZER, 6 + 12 / 4, id="the optimizer is divided by four"),
        pytest.param(Sharding.FULL, 18 / 4, id="everything is divided by four"),
    ],
)
def test_replicas_divide_what_their_sharding_says(
    sharding: Sharding, bytes_per_parameter: float
) -> None:
    found = trained(replicas=4, sharding=sharding)
    assert found.resident_bytes == pytest.approx(bytes_per_parameter * 8.191e9, rel=1e-3)


def test_layers_keep_all_activations_without_recomputation() -> None:
    kept, recomputed = trained(recompute=Recompute.NONE), trained()
    layer = memory.layer_bytes(whole(), tokens=memory.pass_tokens(work()))
    assert kept.activations_bytes - recomputed.activations_bytes == pytest.approx(35 * layer)


def test_tasks_on_one_gpu_add_weights_and_share_the_rest() -> None:
    kind = a_kind("H100-80GB")
    training = trained()
    scoring = memory.inference_footprint(whole(), work())
    serving = memory.generation_footprint(whole(), work(), concurrency=50)
    use = memory.together([training, scoring, serving], kind)
    assert use.optimizer_bytes == round(training.optimizer_bytes)
    assert use.total_bytes == pytest.approx(
        training.resident_bytes
        + scoring.resident_bytes
        + memory.overhead_bytes(kind)
        + max(each.working_bytes for each in (training, scoring, serving)),
        abs=8,
    )


def test_engine_has_less_room_beside_what_others_keep() -> None:
    kind = a_kind("H100-80GB")
    alone = memory.max_concurrency(whole(), kind, work())
    beside = memory.max_concurrency(whole(), kind, work(), beside_bytes=40 * GIB)
    assert beside < alone


def test_activations_of_one_sequence_can_be_counted_by_hand() -> None:
    # 36 layer inputs of 1536 x 4096 values; one layer of 4·4096 + 2·4096 + 2·1024 + 3·12288
    # values a token; logits of 1536 x 151936 at twenty bytes.
    inputs = 36 * 1536 * 4096 * 2
    layer = 1536 * (6 * 4096 + 2 * 1024 + 3 * 12288) * 2
    logits = 1536 * 151936 * 20
    assert memory.activation_bytes(
        whole(), tokens=1536, passes_in_flight=1, recompute=Recompute.FULL
    ) == (inputs + layer + logits)


@pytest.mark.parametrize(
    ("tensor", "logits"),
    [
        # fp32 logits over a vocabulary of 151936.
        pytest.param(1, 1000 * 151936 * 4, id="one GPU has all logits"),
        pytest.param(4, 1000 * 151936, id="four GPUs have a quarter each"),
    ],
)
def test_scoring_holds_one_layer_and_logits(tensor: int, logits: int) -> None:
    shard = whole(tensor=tensor)
    found = memory.forward_activation_bytes(shard, tokens=1000)
    assert found == memory.layer_bytes(shard, tokens=1000) + logits


@pytest.mark.parametrize(
    ("tensor", "logits"),
    [
        # fp32 logits of 256 sequences over a vocabulary of 151936.
        pytest.param(1, 256 * 151936 * 4, id="one GPU has all logits"),
        pytest.param(4, 256 * 151936, id="four GPUs have a quarter each"),
    ],
)
def test_prefill_holds_a_layers_widest_values_and_logits(tensor: int, logits: int) -> None:
    # Of 1000 tokens: residuals in and out (4096 wide), gate and up (12288 wide), two bytes each.
    widest = 1000 * 2 * (2 * 4096 + 2 * 12288)
    found = memory.prefill_activation_bytes(whole(tensor=tensor), work(max_prompt_tokens=1000))
    assert found == widest + logits


def test_stage_before_the_last_has_no_logits() -> None:
    halves = Parallelism(tensor=1, stage_layers=(18, 18))
    first, last = shards(ARCHITECTURES["Qwen3-8B"], halves)
    prefill, score = (
        [each(stage) for stage in (first, last)]
        for each in (
            lambda stage: memory.prefill_activation_bytes(stage, work()),
            lambda stage: memory.forward_activation_bytes(stage, tokens=1000),
        )
    )
    assert prefill[1] - prefill[0] == memory.MAX_CONCURRENCY * 151936 * 4
    assert score == [
        memory.layer_bytes(first, tokens=1000),
        memory.layer_bytes(last, tokens=1000) + 1000 * 151936 * 4,
    ]


def test_stage_keeps_inputs_of_every_sequence_in_flight() -> None:
    one, four = (
        memory.activation_bytes(
            whole(), tokens=1000, passes_in_flight=count, recompute=Recompute.FULL
        )
        for count in (1, 4)
    )
    assert four - one == 3 * 36 * 1000 * 4096 * 2


@pytest.mark.parametrize(
    ("max_response_tokens", "tokens"),
    [
        # 2^30 bytes of fp32 logits over a vocabulary of 151936.
        pytest.param(512, 1766, id="short sequences share a pass"),
        pytest.param(8192, 8704, id="a long sequence has its own"),
    ],
)
def test_pass_takes_what_the_trainer_packs(max_response_tokens: int, tokens: int) -> None:
    assert memory.pass_tokens(work(max_response_tokens=max_response_tokens)) == tokens


def serving(shard: Shard, kind: GpuKind, job: Workload, *, concurrency: int) -> MemoryUse:
    return memory.together([memory.generation_footprint(shard, job, concurrency=concurrency)], kind)


def test_cache_holds_what_weights_leave_free() -> None:
    kind, job = a_kind("A100-40GB"), work()
    held = memory.max_concurrency(whole(), kind, job)
    full, over = (
        serving(whole(), kind, job, concurrency=count).total_bytes for count in (held, held + 1)
    )
    assert full <= kind.memory_bytes < over


def test_engine_runs_no_more_than_it_can_batch() -> None:
    assert memory.max_concurrency(whole("Qwen3-0.6B"), a_kind("H200"), work("Qwen3-0.6B")) == 256


@pytest.mark.parametrize("kind", ["L4", "A100-40GB", "A100-80GB", "H200"])
def test_concurrency_never_overfills_the_gpu(kind: str) -> None:
    for model in ARCHITECTURES:
        held = memory.max_concurrency(whole(model), a_kind(kind), work(model))
        use = serving(whole(model), a_kind(kind), work(model), concurrency=held)
        assert held == 0 or use.total_bytes <= a_kind(kind).memory_bytes


def test_model_larger_than_the_gpu_holds_no_sequence() -> None:
    assert memory.max_concurrency(whole("Qwen3-32B"), a_kind("L4"), work("Qwen3-32B")) == 0


def test_longest_sequence_must_fit_alone() -> None:
    # An average sequence of 100 tokens would fit many times over.
    long = work(response_tokens=100, max_response_tokens=10_000_000)
    assert memory.max_concurrency(whole(), a_kind("A100-80GB"), long) == 0


def test_longer_responses_leave_room_for_fewer() -> None:
    kind = a_kind("A100-40GB")
    short, long = (
        memory.max_concurrency(whole(), kind, work(response_tokens=tokens))
        for tokens in (1000, 4000)
    )
    assert long < short


def test_tensor_ranks_share_weights_and_cache() -> None:
    kind = a_kind("A100-40GB")
    one, two = (serving(whole(tensor=size), kind, work(), concurrency=10) for size in (1, 2))
    assert two.weights_bytes * 2 == pytest.approx(one.weights_bytes, abs=2)
    assert two.kv_cache_bytes * 2 == pytest.approx(one.kv_cache_bytes, abs=2)


def test_overhead_is_a_tenth_of_the_device() -> None:
    assert memory.overhead_bytes(a_kind("A100-40GB")) == 4 * GIB


def test_state_of_trained_parameters_adds_weights_gradients_and_moments() -> None:
    assert memory.training_state_bytes(10) == 10 * (2 + 4 + 12)
