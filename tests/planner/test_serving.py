"""A replica's rate over its concurrency: on the grid, between its points and beyond."""

from itertools import pairwise

import pytest

from hetrl_core.plan.plan import Parallelism
from hetrl_planner.cost.generation import GenerationCost
from hetrl_planner.cost.network import Channel
from hetrl_planner.cost.serving import Serving
from hetrl_planner.cost.shard import split_layers
from hetrl_planner.cost.stage import uniform_stages
from hetrl_planner.problem.workload import workload
from tests.builders import ARCHITECTURES, a_job, a_kind

MODEL = ARCHITECTURES["Qwen3-8B"]


def serving(max_concurrency: int = 100) -> Serving:
    parallelism = Parallelism(tensor=1, stage_layers=split_layers(MODEL, 1))
    wire = Channel(bytes_per_second=12.5e9, latency_seconds=50e-6)
    stages = uniform_stages(MODEL, parallelism, a_kind("A100-80GB"), wire)
    cost = GenerationCost(work=workload(a_job(), MODEL), stages=stages)
    return Serving(cost=cost, max_concurrency=max_concurrency)


@pytest.mark.parametrize("most", [1, 2, 7, 100])
def test_grid_goes_from_one_to_the_largest_concurrency(most: int) -> None:
    grid = serving(most).concurrency_grid
    assert (grid[0], grid[-1]) == (1, most)
    assert list(grid) == sorted(set(grid))
    assert all(above <= 1.25 * below + 1 for below, above in pairwise(grid))


def test_rate_is_exact_on_grid_points_and_close_between() -> None:
    replica = serving()
    for at in replica.concurrency_grid:
        assert replica.rate_near(at) == pytest.approx(replica.samples_per_second(at))
    for at in (1.5, 10.7, 33.3, 90.1):
        assert replica.rate_near(at) == pytest.approx(replica.samples_per_second(at), rel=0.01)


def test_rate_outside_the_grid_follows_from_its_end() -> None:
    replica = serving()
    times = replica.grid_seconds
    assert replica.rate_near(0.5) == pytest.approx(0.5 / times[0])
    assert replica.rate_near(200) == pytest.approx(200 / times[-1])


def test_concurrency_within_a_time_is_linear_between_grid_points() -> None:
    replica = serving()
    grid, times = replica.concurrency_grid, replica.grid_seconds
    for at, seconds in zip(grid, times, strict=True):
        assert replica.concurrency_within(seconds) == pytest.approx(at)
    middle = (times[3] + times[4]) / 2
    assert replica.concurrency_within(middle) == pytest.approx((grid[3] + grid[4]) / 2)


@pytest.mark.parametrize(("share", "expected"), [(0.99, 0.0), (1.0, 1.0)])
def test_concurrency_is_zero_before_one_trajectory_can_end(share: float, expected: float) -> None:
    replica = serving()
    seconds = share * replica.grid_seconds[0]
    assert replica.concurrency_within(seconds) == expected
    assert replica.done_within(seconds) == expected


@pytest.mark.parametrize("turns", [1, 2.5])
def test_full_cache_is_renewed_as_its_trajectories_end(turns: float) -> None:
    replica = serving()
    seconds = turns * replica.grid_seconds[-1]
    assert replica.done_within(seconds) == pytest.approx(turns * 100)
    assert replica.concurrency_within(seconds) == 100


def test_tangents_bound_the_rate_and_touch_it_once() -> None:
    replica = serving()
    for line in replica.tangents:
        for at in (1, 5, 20, 60, 100):
            bound = line.intercept + line.slope * at
            assert bound >= replica.samples_per_second(at) * (1 - 1e-4)
        touched = line.intercept + line.slope * line.at
        assert touched == pytest.approx(replica.samples_per_second(line.at))
