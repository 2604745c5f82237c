from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetrl_core.fleet.catalogue import CATALOGUE
from hetrl_core.job.algorithm import Mode
from hetrl_core.plan.plan import Parallelism
from hetrl_planner.cost.generation import ENGINE_STEP_SECONDS, GenerationCost
from hetrl_planner.cost.network import Channel
from hetrl_planner.cost.shard import split_layers
from hetrl_planner.cost.stage import uniform_stages
from hetrl_planner.problem.workload import workload
from tests.builders import ARCHITECTURES, a_job, a_kind

SLOW_WIRE = Channel(bytes_per_second=12.5e9, latency_seconds=50e-6)


def a_cost(
    model: str = "Qwen3-8B",
    kind: str = "A100-80GB",
    *,
    tensor: int = 1,
    stages: int = 1,
    mode: Mode = Mode.ASYNC,
) -> GenerationCost:
    architecture = ARCHITECTURES[model]
    return GenerationCost(
        work=workload(a_job(model, mode=mode), architecture),
        stages=uniform_stages(
            architecture,
            Parallelism(tensor=tensor, stage_layers=split_layers(architecture, stages)),
            a_kind(kind),
            SLOW_WIRE,
        ),
    )


def test_single_sequence_waits_for_the_weights_to_be_read() -> None:
    cost = a_cost()
    read = 2 * (8.191e9 - 151936 * 4096) / (2039e9 * 0.75)
    assert cost.token_seconds(1) == pytest.approx(read + ENGINE_STEP_SECONDS, rel=0.01)
    assert cost.binding(1) == "HBM bandwidth"


def test_second_sequence_is_almost_free_at_first() -> None:
    cost = a_cost()
    assert cost.samples_per_second(2) > 1.9 * cost.samples_per_second(1)


def test_arithmetic_binds_when_very_many_share_a_reading() -> None:
    # Short contexts, so that keys and values weigh little.
    cost = a_cost("Qwen3-14B")
    short = replace(cost, work=replace(cost.work, prompt_tokens=1, response_tokens=2))
    assert short.binding(10_000) == "compute"


def test_tensor_parallelism_shortens_a_token() -> None:
    assert a_cost(tensor=4).token_seconds(8) < a_cost().token_seconds(8)


def test_slow_wires_between_ranks_take_the_gain_back() -> None:
    gain = {
        kind: a_cost(kind=kind).token_seconds(64) / a_cost(kind=kind, tensor=8).token_seconds(64)
        for kind in ("A100-40GB", "A100-40GB-PCIe")
    }
    assert gain["A100-40GB-PCIe"] < gain["A100-40GB"]


def test_stages_add_hops_and_read_no_weight_twice() -> None:
    one, two = a_cost().token_seconds(1), a_cost(stages=2).token_seconds(1)
    assert one < two < 1.2 * one


def test_synchronous_step_waits_for_its_longest_response() -> None:
    running, waiting = a_cost(), a_cost(mode=Mode.SYNC)
    tail_tokens = 1024 - 512
    slower = 1 / waiting.samples_per_second(8) - 1 / running.samples_per_second(8)
    assert slower == pytest.approx(tail_tokens * running.token_seconds(1) / 8)


def test_idle_replica_generates_nothing() -> None:
    assert a_cost().samples_per_second(0) == 0


@given(
    model=st.sampled_from(sorted(ARCHITECTURES)),
    kind=st.sampled_from([kind.name for kind in CATALOGUE]),
    tensor=st.sampled_from([1, 2, 4]),
    stages=st.sampled_from([1, 2, 4]),
    at=st.floats(1, 200),
    ahead=st.floats(0.1, 50),
)
def test_rates_grow_with_concurrency_and_ever_more_slowly(
    *, model: str, kind: str, tensor: int, stages: int, at: float, ahead: float
) -> None:
    # The MILP bounds rates by tangents, which is right only where they are concave.
    rate = a_cost(model, kind, tensor=tensor, stages=stages).samples_per_second
    low, middle, high = rate(at), rate(at + ahead), rate(at + 2 * ahead)
    assert low <= middle * (1 + 1e-9)
    assert middle <= high * (1 + 1e-9)
    assert high - middle <= (middle - low) + 1e-9 * high


@given(
    kind=st.sampled_from([kind.name for kind in CATALOGUE]),
    factor=st.floats(1, 10),
    concurrency=st.integers(1, 200),
)
def test_better_hardware_never_generates_more_slowly(
    kind: str, factor: float, concurrency: int
) -> None:
    plain = a_cost(kind=kind, tensor=2)
    (stage,) = plain.stages
    for field in ("bf16_flops", "hbm_bytes_per_second", "intra_node_bytes_per_second"):
        faster = replace(stage.kind, **{field: getattr(stage.kind, field) * factor})
        better = replace(plain, stages=(replace(stage, kind=faster),))
        assert better.samples_per_second(concurrency) >= plain.samples_per_second(concurrency)
