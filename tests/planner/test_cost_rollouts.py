"""Concurrency of replicas under a staleness bound, and the time of a batch with it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetrl_core.job.algorithm import Mode
from hetrl_core.plan.plan import Parallelism
from hetrl_planner.cost.generation import GenerationCost
from hetrl_planner.cost.network import AT_ONCE, Channel, WeightSync
from hetrl_planner.cost.rollouts import (
    Generated,
    OtherStepParts,
    Rollouts,
    generated,
    most_in_flight,
    useful_seconds,
)
from hetrl_planner.cost.serving import Serving
from hetrl_planner.cost.shard import split_layers
from hetrl_planner.cost.stage import uniform_stages
from hetrl_planner.problem.workload import Workload, workload
from tests.builders import ARCHITECTURES, a_job, a_kind

MODEL = ARCHITECTURES["Qwen3-8B"]
ONE_GPU = Parallelism(tensor=1, stage_layers=split_layers(MODEL, 1))
WIRE = Channel(bytes_per_second=12.5e9, latency_seconds=50e-6)


def a_workload(**changes: object) -> Workload:
    return replace(workload(a_job(), MODEL), **changes)  # type: ignore[arg-type]


def some_rollouts(
    work: Workload,
    kind: str = "A100-80GB",
    *,
    replicas: int = 4,
    places: int = 400,
    weights: WeightSync = AT_ONCE,
) -> Rollouts:
    stages = uniform_stages(MODEL, ONE_GPU, a_kind(kind), WIRE)
    return Rollouts(
        serving=Serving(cost=GenerationCost(work=work, stages=stages), max_concurrency=places),
        num_replicas=replicas,
        weights=weights,
    )


ALONE = OtherStepParts()


def seconds(work: Workload, *rollouts: Rollouts, beside: OtherStepParts = ALONE) -> float:
    return generated(rollouts, work, beside).seconds


def made(rollouts: Rollouts, found: Generated) -> float:
    rate = rollouts.serving.samples_per_second(found.concurrency[0])
    return rollouts.num_replicas * rate * (found.seconds - rollouts.weights.load_seconds)


@pytest.mark.parametrize("max_staleness", [1, 2, 8])
def test_batch_consists_of_what_is_in_time(max_staleness: int) -> None:
    work = a_workload(max_staleness=max_staleness)
    rollouts = some_rollouts(work, weights=WeightSync(transfer_seconds=1, load_seconds=2))

    found = generated([rollouts], work, OtherStepParts())

    assert made(rollouts, found) == pytest.approx(work.batch_size, rel=1e-3)
    sample_seconds = found.concurrency[0] / rollouts.serving.samples_per_second(
        found.concurrency[0]
    )
    group_seconds = work.group_spread * sample_seconds
    assert group_seconds <= max_staleness * (found.seconds - 2) - 1 + 1e-3


def test_looser_bound_lets_more_run_at_once() -> None:
    found = [
        generated([some_rollouts(work)], work, OtherStepParts())
        for work in (a_workload(max_staleness=each) for each in (1, 2, 4))
    ]
    assert found[0].concurrency < found[1].concurrency < found[2].concurrency
    assert found[0].seconds > found[1].seconds > found[2].seconds


def test_longer_training_lets_more_arrive_in_time() -> None:
    work = a_workload(max_staleness=1)
    alone = generated([some_rollouts(work)], work, OtherStepParts())
    slowly = generated(
        [some_rollouts(work)], work, OtherStepParts(others_seconds=1.5 * alone.seconds)
    )
    assert slowly.concurrency > alone.concurrency
    assert slowly.seconds < alone.seconds


def test_group_takes_longer_than_a_response_especially_with_long_tails() -> None:
    group, single = a_workload(group_size=8), a_workload(group_size=1)
    even = a_workload(max_response_tokens=single.response_tokens)
    assert even.group_spread < single.group_spread < group.group_spread
    assert even.most_running > single.most_running > group.most_running


def test_slow_replicas_run_less_at_once() -> None:
    work = a_workload(max_staleness=1)
    fast, slow = some_rollouts(work, "A100-80GB"), some_rollouts(work, "L40S")
    found = generated([fast, slow], work, OtherStepParts())
    assert found.concurrency[0] > found.concurrency[1]


@pytest.mark.parametrize(
    "beside",
    [
        pytest.param(OtherStepParts(same_gpus_seconds=20, others_seconds=20), id="turns"),
        pytest.param(OtherStepParts(scoring_seconds=20), id="scoring"),
    ],
)
def test_waits_elsewhere_leave_a_trajectory_less_time(beside: OtherStepParts) -> None:
    work = a_workload(max_staleness=1)
    alone = generated([some_rollouts(work)], work, OtherStepParts())
    found = generated([some_rollouts(work)], work, beside)
    assert found.seconds >= alone.seconds


def test_rollouts_behind_a_slow_link_are_of_little_use() -> None:
    work = a_workload(max_staleness=1)
    near = some_rollouts(work)
    far = some_rollouts(work, weights=WeightSync(transfer_seconds=1e6, load_seconds=0))
    found = generated([near, far], work, OtherStepParts())
    assert found.concurrency[1] == 0
    assert found.seconds == pytest.approx(seconds(work, near))


@pytest.mark.parametrize(
    ("max_staleness", "waits"), [(1, True), (8, False)], ids=["whole batches", "open batches"]
)
def test_replica_beside_a_satisfied_trainer_waits_for_newer_weights(
    max_staleness: int, waits: bool
) -> None:
    # Training takes as long as generation needs alone: at η = 1 the batch that older weights
    # may still be of use to is whole when they begin; at η = 8 seven more are open.
    work = a_workload(max_staleness=max_staleness)
    needs = seconds(work, some_rollouts(work))
    beside = OtherStepParts(others_seconds=needs, training_side_seconds=needs)
    lag = needs / 4
    far = some_rollouts(work, weights=WeightSync(transfer_seconds=lag, load_seconds=0))
    longer = seconds(work, far, beside=beside) - seconds(work, some_rollouts(work), beside=beside)
    assert (lag / 4 < longer < lag) if waits else (longer < lag / 50)


def test_link_is_crossed_during_generation() -> None:
    work = a_workload(max_staleness=4)
    beside = OtherStepParts(others_seconds=2 * seconds(work, some_rollouts(work)))
    crossing = some_rollouts(work, weights=WeightSync(transfer_seconds=5, load_seconds=0))
    stopping = some_rollouts(work, weights=WeightSync(transfer_seconds=0, load_seconds=5))
    assert seconds(work, crossing, beside=beside) < seconds(work, stopping, beside=beside)


def test_synchronous_batch_is_all_that_runs() -> None:
    job = a_job(mode=Mode.SYNC, global_batch_size=64)
    work = workload(job, MODEL)
    found = generated([some_rollouts(work)], work, OtherStepParts())
    assert found.concurrency == (16,)


@pytest.mark.parametrize(
    ("transfer_seconds", "scoring_seconds", "left"),
    [
        # With η = 2 and a load of 1 s, 18 of 20 s count, and 85 % of them.
        pytest.param(0, 0, 0.85 * 2 * 9, id="at once"),
        pytest.param(4, 0, 0.85 * 2 * 9 - 4, id="a link shorter than a step"),
        pytest.param(12, 0, 0.85 * 2 * 9 - 12 - 2, id="a link longer than a step"),
        pytest.param(4, 3, 0.85 * 2 * 9 - 4 - 3, id="scores to wait for"),
    ],
)
def test_useful_time_is_the_bound_without_lag_and_scoring(
    transfer_seconds: float, scoring_seconds: float, left: float
) -> None:
    work = a_workload(max_staleness=2)
    found = useful_seconds(
        work,
        WeightSync(transfer_seconds=transfer_seconds, load_seconds=1),
        window_seconds=10,
        scoring_seconds=scoring_seconds,
    )
    assert found == pytest.approx(left / work.group_spread)


@pytest.mark.parametrize(
    ("max_staleness", "share", "batches"),
    [
        pytest.param(2, 0.0, 2.5, id="a batch in the making is half full"),
        pytest.param(2, 1.0, 1.5, id="the trainer has one all the time"),
        pytest.param(0, 1.0, 0.0, id="never less than none"),
    ],
)
def test_trajectories_in_flight_are_the_bound_without_other_batches(
    max_staleness: int, share: float, batches: float
) -> None:
    work = a_workload(max_staleness=max_staleness, batch_size=64)
    found = most_in_flight(work, training_side_share=share)
    assert found == pytest.approx(batches * 64 / work.group_spread)


@given(max_staleness=st.integers(1, 8), group_size=st.sampled_from([1, 4, 16]))
def test_useful_time_grows_with_the_step(max_staleness: int, group_size: int) -> None:
    work = a_workload(max_staleness=max_staleness, group_size=group_size)
    weights = WeightSync(transfer_seconds=3, load_seconds=1)
    times = [useful_seconds(work, weights, window_seconds=each) for each in (10, 20, 40)]
    assert times == sorted(times)
    assert times[-1] < max_staleness * 40
