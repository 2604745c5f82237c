from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetrl_core.plan.plan import REPLICATED, Parallelism, Recompute, Sharding, TrainingMode
from hetrl_planner.cost import compute
from hetrl_planner.cost.network import Channel
from hetrl_planner.cost.shard import shards, split_layers
from hetrl_planner.cost.stage import uniform_stages
from hetrl_planner.cost.training import Ring, TrainingTime, pipeline, training_time
from hetrl_planner.problem.workload import Workload, workload
from tests.builders import ARCHITECTURES, a_job, a_kind

WIRE = Channel(bytes_per_second=12.5e9, latency_seconds=50e-6)
INSIDE = Channel(bytes_per_second=300e9, latency_seconds=3e-6)
MODEL = ARCHITECTURES["Qwen3-8B"]


def work(**changes: object) -> Workload:
    return replace(workload(a_job("Qwen3-8B"), MODEL), **changes)  # type: ignore[arg-type]


def time(
    *,
    replicas: int = 1,
    tensor: int = 1,
    stages: int = 1,
    of: Workload | None = None,
    wire: Channel = WIRE,
    mode: TrainingMode = REPLICATED,
    rings_sharing_a_wire: int = 1,
) -> TrainingTime:
    job = of or work()
    parallelism = Parallelism(tensor=tensor, stage_layers=split_layers(MODEL, stages))
    replica = pipeline(
        job,
        uniform_stages(MODEL, parallelism, a_kind("A100-80GB"), wire),
        recompute=mode.recompute,
    )
    per_minibatch = job.batch_size // job.minibatches
    rings = [
        Ring(
            members=replicas,
            channel=wire,
            wire_bytes=2 * shard.num_parameters * rings_sharing_a_wire,
        )
        for shard in shards(MODEL, parallelism)
    ]
    most = -(-per_minibatch // replicas)
    return training_time(job, [(replica, most)] * replicas, rings, mode=mode)


def test_single_gpu_computes_without_communication() -> None:
    (shard,) = shards(MODEL, Parallelism(tensor=1, stage_layers=(36,)))
    sequence = compute.training_seconds(
        shard,
        a_kind("A100-80GB"),
        tokens=work().sample_tokens,
        recompute=Recompute.FULL,
        forward_only_passes=1,
    )
    found = time()
    assert found.compute_seconds == pytest.approx(256 * sequence)
    assert found.tensor_parallel_seconds + found.pipeline_seconds + found.data_parallel_seconds == 0


def test_batch_waits_for_the_replica_with_the_most_of_it() -> None:
    seven, eight = time(replicas=7).compute_seconds, time(replicas=8).compute_seconds
    assert seven / eight == pytest.approx(37 / 32)  # ceil(256/7) against 256/8


def test_gradients_cross_the_wire_once_for_each_minibatch() -> None:
    once, four = (
        time(replicas=4, of=work(minibatches=count)).data_parallel_seconds for count in (1, 4)
    )
    # A ring of four: six steps of a quarter of 2 bytes a parameter.
    size_bytes = 2 * (MODEL.num_parameters - MODEL.hidden_size)
    by_hand = 6 * (50e-6 + size_bytes / 4 / 12.5e9)
    assert once == pytest.approx(by_hand, rel=1e-4)
    assert four == pytest.approx(4 * once)


def test_gpus_of_one_machine_share_its_way_out() -> None:
    shared = time(replicas=2, tensor=8, rings_sharing_a_wire=8).data_parallel_seconds
    own = time(replicas=2, tensor=8).data_parallel_seconds
    assert shared == pytest.approx(8 * own, rel=1e-2)


def test_pipeline_idles_while_it_fills_and_drains() -> None:
    found = time(stages=4, of=work(batch_size=8))
    # Four stages and eight microbatches: three turns more than the eight that compute, but
    # not of the slowest stage. The first has fewer layers, for it holds the embedding too.
    assert found.pipeline_seconds == pytest.approx(found.compute_seconds * 3 / 8, rel=0.15)
    assert found.pipeline_seconds < found.compute_seconds * 3 / 8


def test_tensor_parallelism_pays_six_all_reduces_a_layer() -> None:
    hidden = work().sample_tokens * 4096 * 2
    once = 2 * (3e-6 + hidden / 2 / 300e9)
    assert time(tensor=2).tensor_parallel_seconds == pytest.approx(256 * 36 * 6 * once)


def test_keeping_activations_saves_the_second_forward() -> None:
    plain, kept = time(), time(mode=TrainingMode(recompute=Recompute.NONE))
    # Of five forwards' worth, the proximal policy's included, four are left.
    assert kept.compute_seconds == pytest.approx(plain.compute_seconds * 4 / 5)


def test_full_sharding_alone_adds_gathers_to_every_pass() -> None:
    plain, optimizer, full = (
        time(replicas=4, mode=TrainingMode(sharding=sharding)) for sharding in Sharding
    )
    assert optimizer.data_parallel_seconds == plain.data_parallel_seconds
    # 64 sequences of 768 tokens in passes of 1766: 28 passes, two gathers each, and one scatter.
    assert full.data_parallel_seconds == pytest.approx(plain.data_parallel_seconds * (56 + 1) / 2)
    assert optimizer.optimizer_seconds == pytest.approx(plain.optimizer_seconds / 4)


def test_total_is_the_sum_of_its_terms() -> None:
    found = time(replicas=4, tensor=2, stages=2)
    assert found.total_seconds == (
        found.compute_seconds
        + found.tensor_parallel_seconds
        + found.pipeline_seconds
        + found.data_parallel_seconds
        + found.optimizer_seconds
    )


@pytest.mark.parametrize(
    ("changes", "binding"),
    [
        pytest.param({}, "compute", id="one GPU"),
        pytest.param(
            {"replicas": 256, "of": work(minibatches=256)},
            "gradient all-reduce",
            id="a version of many tiny minibatches",
        ),
        pytest.param({"stages": 8, "of": work(batch_size=1)}, "pipeline bubble", id="one sequence"),
    ],
)
def test_largest_term_binds(changes: dict[str, object], binding: str) -> None:
    assert time(**changes).binding == binding  # type: ignore[arg-type]


@given(replicas=st.integers(1, 64), factor=st.floats(1, 100))
def test_faster_wire_never_slows_training(replicas: int, factor: float) -> None:
    better = Channel(
        bytes_per_second=WIRE.bytes_per_second * factor,
        latency_seconds=WIRE.latency_seconds / factor,
    )
    assert (
        time(replicas=replicas, stages=2, wire=better).total_seconds
        <= time(replicas=replicas, stages=2).total_seconds
    )
