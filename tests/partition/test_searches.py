from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetrl_planner.partition.find import find_partition
from hetrl_planner.partition.graph import DeviceGraph, Labels
from hetrl_planner.partition.network import PipelineNetworkCost
from hetrl_planner.partition.search import cut
from hetrl_planner.partition.search.attraction import attractions
from hetrl_planner.partition.search.chains import Chains, swap_chains
from hetrl_planner.partition.search.cyclic import cyclic_partitioning
from hetrl_planner.partition.search.evolution import (
    five_point_crossover,
)
from hetrl_planner.partition.search.kernighan_lin import kernighan_lin
from hetrl_planner.partition.search.regroup import regrouped
from hetrl_planner.partition.search.repair import to_sizes
from hetrl_planner.partition.search.search import Best, minimise
from hetrl_planner.partition.shape import Shape
from tests.partition.builders import a_random_graph, every_partition, sites

SIZES = {
    "even": Shape.even(num_parts=3, part_size=4),
    "uneven": Shape(part_sizes=(1, 3, 6, 2)),
    "one part": Shape(part_sizes=(12,)),
    "parts of one": Shape.even(num_parts=12, part_size=1),
}
SEEDS = st.integers(0, 10_000)


def a_cost(graph: DeviceGraph, shape: Shape) -> PipelineNetworkCost:
    return PipelineNetworkCost(graph, shape, gradient_bytes=3e8, activation_bytes=2e8)


def inside(part_of: Labels, attraction: np.ndarray) -> float:
    return float(attraction[part_of[:, None] == part_of].sum())


def find(
    graph: DeviceGraph,
    shape: Shape,
    *,
    seed: int,
    max_evaluations: int = 1500,
    cost: Callable[[Labels], float] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Best:
    return find_partition(
        graph,
        shape,
        cost or a_cost(graph, shape),
        np.random.default_rng(seed),
        message_bytes=2e8,
        max_evaluations=max_evaluations,
        should_stop=should_stop,
    )


def has_sizes_of(shape: Shape, part_of: Labels) -> bool:
    return tuple(np.bincount(part_of, minlength=shape.num_parts)) == shape.part_sizes


@pytest.mark.parametrize("shape", SIZES.values(), ids=SIZES)
def test_proposals_have_the_sizes(shape: Shape) -> None:
    graph, proposed = a_random_graph(1, num_devices=12), []

    def cost(part_of: Labels) -> float:
        proposed.append(has_sizes_of(shape, part_of))
        return float(np.random.default_rng(len(proposed)).random())

    find(graph, shape, seed=1, max_evaluations=400, cost=cost)
    assert len(proposed) > 1 or shape.num_parts == 1
    assert all(proposed)


@settings(max_examples=20)
@given(seed=SEEDS, name=st.sampled_from(sorted(SIZES)))
def test_steps_keep_the_sizes(seed: int, name: str) -> None:
    rng, shape = np.random.default_rng(seed), SIZES[name]
    graph = a_random_graph(seed, num_devices=12)
    pulls = attractions(graph, message_bytes=1e8)
    one, other = shape.shuffled(rng), shape.shuffled(rng)
    for found in (
        five_point_crossover(one, other, shape, rng),
        regrouped(one, shape, pulls, rng),
        cyclic_partitioning(one, pulls.apart, num_parts=shape.num_parts),
        kernighan_lin(one, pulls.fast),
        to_sizes(rng.integers(shape.num_parts, size=12), shape, attraction=pulls.fast),
    ):
        assert has_sizes_of(shape, found)


@settings(max_examples=20)
@given(seed=SEEDS, name=st.sampled_from(sorted(SIZES)))
def test_kernighan_lin_never_worsens_a_cut(seed: int, name: str) -> None:
    attraction = attractions(a_random_graph(seed, num_devices=12), message_bytes=1e8).fast
    start = SIZES[name].shuffled(np.random.default_rng(seed))
    assert inside(kernighan_lin(start, attraction), attraction) >= inside(start, attraction) - 1e-9


@settings(max_examples=8)
@given(seed=SEEDS)
def test_chains_of_swaps_never_worsen_and_leave_no_better_swap(seed: int) -> None:
    graph, shape = a_random_graph(seed, num_devices=8), Shape.even(num_parts=4, part_size=2)
    rng, cost = np.random.default_rng(seed), a_cost(graph, shape)
    start = shape.shuffled(rng)
    best = minimise(
        swap_chains(start, graph.class_of, rng, chains=Chains()), cost, max_evaluations=10_000
    )
    assert best.ended_by == "work"
    assert best.cost <= cost(start)
    found = np.array(best.partition.part_of)
    for one in range(8):
        for other in range(one):
            swapped = found.copy()
            swapped[[one, other]] = found[[other, one]]
            assert cost(swapped) >= best.cost - 1e-9


@pytest.mark.parametrize("has_metis", [True, False], ids=["metis", "grown"])
def test_cuts_find_the_sites(monkeypatch: pytest.MonkeyPatch, has_metis: bool) -> None:
    monkeypatch.setattr(cut, "HAS_METIS", has_metis and cut.HAS_METIS)
    graph = sites(4, 4, 4)
    order = np.random.default_rng(3).permutation(12)
    fast = attractions(graph, message_bytes=1e8).fast[np.ix_(order, order)]
    found = cut.cut(fast, Shape.even(num_parts=3, part_size=4), weights=graph.weights, seed=1)
    assert len(set(zip(found, graph.class_of[order], strict=True))) == 3


@pytest.mark.parametrize("has_metis", [True, False], ids=["metis", "grown"])
def test_cuts_find_the_mix_that_leaves_sites_to_pipelines(
    monkeypatch: pytest.MonkeyPatch, has_metis: bool
) -> None:
    monkeypatch.setattr(cut, "HAS_METIS", has_metis and cut.HAS_METIS)
    graph = sites(4, 4, 4)
    apart = attractions(graph, message_bytes=1e8).apart
    found = cut.cut(apart, Shape.even(num_parts=4, part_size=3), weights=graph.weights, seed=1)
    assert len(set(zip(found, graph.class_of, strict=True))) == 12


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(seed=SEEDS, levels=st.integers(2, 5))
def test_small_instances_are_solved_to_the_optimum(seed: int, levels: int) -> None:
    graph, shape = (
        a_random_graph(seed, num_devices=8, levels=levels),
        Shape.even(num_parts=4, part_size=2),
    )
    cost = a_cost(graph, shape)
    optimum = min(cost(each) for each in every_partition(8, part_size=2))
    assert find(graph, shape, seed=seed, max_evaluations=1500).cost == pytest.approx(optimum)


@pytest.mark.slow
def test_seed_fixes_the_result() -> None:
    graph, shape = a_random_graph(5, num_devices=12), Shape.even(num_parts=3, part_size=4)
    assert find(graph, shape, seed=4) == find(graph, shape, seed=4)


def test_stopped_search_gives_the_best_so_far() -> None:
    graph, shape = a_random_graph(5, num_devices=12), Shape.even(num_parts=3, part_size=4)
    costs: list[float] = []
    true_cost = a_cost(graph, shape)

    def cost(part_of: Labels) -> float:
        costs.append(true_cost(part_of))
        return costs[-1]

    best = find(graph, shape, seed=1, cost=cost, should_stop=lambda: len(costs) == 7)
    assert (best.ended_by, best.evaluations, best.cost) == ("should_stop", 7, min(costs))


def test_evaluations_end_a_search() -> None:
    graph, shape = a_random_graph(5, num_devices=12), Shape.even(num_parts=3, part_size=4)
    best = find(graph, shape, seed=1, max_evaluations=50)
    assert (best.ended_by, best.evaluations) == ("evaluations", 50)


def test_partition_that_no_choice_is_left_in_ends_by_itself() -> None:
    assert find(sites(4), Shape(part_sizes=(4,)), seed=1).ended_by == "work"


@pytest.mark.parametrize(
    ("shape", "max_evaluations", "message"),
    [
        pytest.param(
            Shape(part_sizes=(2, 3)), 10, "part_sizes must take all 4 devices, got 5", id="sizes"
        ),
        pytest.param(
            Shape(part_sizes=(2, 2)), 0, "max_evaluations must be >= 1, got 0", id="budget"
        ),
    ],
)
def test_impossible_searches_are_refused(shape: Shape, max_evaluations: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find(sites(4), shape, seed=1, max_evaluations=max_evaluations, cost=lambda _: 0.0)


@pytest.mark.parametrize("sizes", [(), (2, 0)], ids=["none", "zero"])
def test_parts_without_members_are_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="part_sizes must be one or more sizes >= 1"):
        Shape(part_sizes=sizes)
