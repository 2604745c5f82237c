import pytest

from hetrl_core.job.architecture import ModelArchitecture
from hetrl_core.plan.plan import Parallelism, Recompute
from hetrl_planner.cost import compute
from hetrl_planner.cost.shard import Shard, shards, split_layers
from hetrl_planner.cost.stage import balanced_layers
from tests.builders import ARCHITECTURES, a_kind

# Round figures: an H100-like chip that does 1e15 operations and 1e12 bytes a second.
ROUND = a_kind(
    "L4", bf16_flops=1e15, hbm_bytes_per_second=1e12, compute_efficiency=0.5, memory_efficiency=0.5
)
TINY = ModelArchitecture(
    hidden_size=10,
    num_layers=4,
    num_query_heads=2,
    num_kv_heads=1,
    head_dim=5,
    ffn_size=20,
    vocab_size=100,
    tied_embeddings=False,
)


def whole(model: ModelArchitecture, tensor: int = 1) -> Shard:
    (shard,) = shards(model, Parallelism(tensor=tensor, stage_layers=(model.num_layers,)))
    return shard


def test_token_costs_two_operations_a_parameter_and_its_attention() -> None:
    # Layer: q and o 10x10, k and v 10x5, feed-forward 3x10x20, two norms of 10; head 100x10.
    layer = 2 * 100 + 2 * 50 + 600 + 20
    attention = 4 * 4 * 10 * 7  # four products-and-sums, 4 layers, 2 heads of 5, 7 tokens back
    flops = compute.forward_flops(whole(TINY), tokens=1, context_tokens=7)
    assert flops == 2 * (4 * layer + 1000) + attention


def test_prefill_is_operations_over_the_share_of_peak() -> None:
    flops = compute.forward_flops(whole(TINY), tokens=8, context_tokens=4)
    assert compute.prefill_seconds(whole(TINY), ROUND, prompt_tokens=8) == flops / 5e14


def test_decoding_reads_the_weights_once_for_all_sequences() -> None:
    shard = whole(TINY)
    one, three = (
        compute.decode_hbm_seconds(shard, ROUND, sequences=count, context_tokens=0)
        for count in (1, 3)
    )
    assert one == three == 2 * shard.multiplied_parameters / 5e11


def test_decoding_reads_each_sequence_its_own_keys_and_values() -> None:
    shard = whole(TINY)
    empty, full = (
        compute.decode_hbm_seconds(shard, ROUND, sequences=2, context_tokens=tokens)
        for tokens in (0, 50)
    )
    # 100 tokens of 4 layers, keys and values of one head of 5, two bytes each.
    assert full - empty == pytest.approx(100 * 4 * 2 * 5 * 2 / 5e11)


def test_training_with_recompute_is_four_forwards_and_scoring_one_more() -> None:
    forward = compute.prefill_seconds(whole(TINY), ROUND, prompt_tokens=8)
    bare = compute.training_seconds(
        whole(TINY), ROUND, tokens=8, recompute=Recompute.FULL, forward_only_passes=0
    )
    scored = compute.training_seconds(
        whole(TINY), ROUND, tokens=8, recompute=Recompute.FULL, forward_only_passes=2
    )
    assert (bare / forward, scored / forward) == pytest.approx((4, 6))


def test_large_model_trains_at_about_eight_operations_a_parameter() -> None:
    model, tokens = ARCHITECTURES["Qwen3-14B"], 1024
    seconds = compute.training_seconds(
        whole(model), ROUND, tokens=tokens, recompute=Recompute.FULL, forward_only_passes=0
    )
    assert seconds * 5e14 == pytest.approx(8 * model.num_parameters * tokens, rel=0.05)


@pytest.mark.parametrize("tensor", [2, 4, 8])
def test_tensor_ranks_share_the_work_evenly(tensor: int) -> None:
    model = ARCHITECTURES["Qwen3-8B"]
    alone = compute.forward_flops(whole(model), tokens=16, context_tokens=100)
    shared = compute.forward_flops(whole(model, tensor), tokens=16, context_tokens=100)
    assert shared * tensor == pytest.approx(alone)


def test_key_value_heads_are_copied_where_ranks_outnumber_them() -> None:
    model = ARCHITECTURES["Qwen2.5-1.5B"]  # two of them
    alone, two, four = (whole(model, tensor).kv_bytes_per_token for tensor in (1, 2, 4))
    assert (two, four) == (alone / 2, alone / 2)


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("num_stages", [1, 2, 3, 4, 6, 8])
def test_stages_hold_every_layer_once_and_about_equally_many_parameters(
    name: str, num_stages: int
) -> None:
    model = ARCHITECTURES[name]
    layers = split_layers(model, num_stages)
    assert sum(layers) == model.num_layers
    assert min(layers) >= 1
    held = [
        shard.num_parameters for shard in shards(model, Parallelism(tensor=1, stage_layers=layers))
    ]
    best_possible = sum(held) / num_stages
    heaviest_piece = max(
        model.layer_parameters, model.embedding_parameters + model.layer_parameters
    )
    assert max(held) <= max(best_possible + model.layer_parameters, heaviest_piece)


def test_first_and_last_stage_pay_for_the_vocabulary() -> None:
    first, *between, last = split_layers(ARCHITECTURES["Qwen3-8B"], 4)
    assert max(first, last) < min(between)


def test_parameters_are_held_once_but_for_tied_ends() -> None:
    untied, tied = ARCHITECTURES["Qwen3-8B"], ARCHITECTURES["Qwen3-4B"]
    for model, copies in ((untied, 0), (tied, 1)):
        stages = shards(model, Parallelism(tensor=2, stage_layers=split_layers(model, 3)))
        held = 2 * sum(stage.num_parameters for stage in stages)
        expected = model.num_parameters + copies * model.embedding_parameters
        assert held == pytest.approx(expected, rel=1e-5)


def test_stages_as_many_as_layers_hold_one_layer() -> None:
    assert split_layers(TINY, 4) == (1, 1, 1, 1)


@pytest.mark.parametrize("num_stages", [0, 5])
def test_number_of_stages_is_between_one_and_the_layers(num_stages: int) -> None:
    with pytest.raises(ValueError, match=rf"num_stages must be in 1\.\.4, got {num_stages}"):
        split_layers(TINY, num_stages)


@pytest.mark.parametrize(
    ("num_layers", "fixed_seconds", "layer_seconds", "most_layers", "layers"),
    [
        pytest.param(4, (0, 0), (1, 1), (4, 4), (2, 2), id="equal stages"),
        pytest.param(6, (0, 0), (1, 2), (6, 6), (4, 2), id="one half as fast"),
        pytest.param(4, (3, 0), (1, 1), (4, 4), (1, 3), id="one with work beside its layers"),
        pytest.param(6, (0, 0), (1, 1), (2, 6), (2, 4), id="one with little memory"),
        pytest.param(6, (0, 0), (1, 1), (2, 4), (2, 4), id="all memory"),
        pytest.param(2, (0, 9), (1, 9), (9, 9), (1, 1), id="a layer for each, however slow"),
        pytest.param(7, (0, 0), (1, 1), (2, 4), None, id="too little memory in all"),
        pytest.param(4, (0, 0), (1, 1), (0, 9), None, id="a stage that holds no layer"),
        pytest.param(1, (0, 0), (1, 1), (9, 9), None, id="fewer layers than stages"),
    ],
)
def test_layers_are_balanced_within_the_memory_of_stages(
    num_layers: int,
    fixed_seconds: tuple[float, ...],
    layer_seconds: tuple[float, ...],
    most_layers: tuple[int, ...],
    *,
    layers: tuple[int, ...] | None,
) -> None:
    found = balanced_layers(
        num_layers,
        fixed_seconds=fixed_seconds,
        layer_seconds=layer_seconds,
        most_layers=most_layers,
    )
    assert found == layers
