from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetrl_planner.partition.graph import DeviceGraph, Labels
from hetrl_planner.partition.network import PipelineNetworkCost
from hetrl_planner.partition.shape import Partition, Shape
from tests.partition.builders import a_graph, a_random_graph, sites

GIGABIT = 1e9 / 8
PAIRS = Shape.even(num_parts=2, part_size=2)


def a_cost(graph: DeviceGraph, shape: Shape = PAIRS) -> PipelineNetworkCost:
    return PipelineNetworkCost(graph, shape, gradient_bytes=GIGABIT, activation_bytes=GIGABIT)


def by_definition(
    graph: DeviceGraph, part_of: Labels, *, gradient: float, activation: float
) -> float:
    """DT-FM's cost by trying every matching and every order."""
    parts = [np.flatnonzero(part_of == part) for part in range(part_of.max() + 1)]
    latency, bandwidth = graph.latency_seconds, graph.bytes_per_second
    data_parallel = max(
        sum(2 * (latency[i, j] + gradient / (bandwidth[i, j] * len(part))) for j in part if j != i)
        for part in parts
        for i in part
    )

    def boundary(one: Labels, other: Labels) -> float:
        return min(
            max(
                latency[i, j] + activation / bandwidth[i, j]
                for i, j in zip(one, order, strict=True)
            )
            for order in permutations(other)
        )

    pipeline = min(
        sum(boundary(parts[a], parts[b]) for a, b in pairwise(path))
        for path in permutations(range(len(parts)))
    )
    return float(data_parallel + 2 * pipeline)


def test_gradients_inside_and_activations_between_are_counted() -> None:
    # Pairs {0,1} and {2,3}: 2 x 1/(2·10) s for gradients; the boundary takes its slower link.
    graph = a_graph([[0, 10, 1, 2], [0, 0, 4, 1], [0, 0, 0, 10], [0, 0, 0, 0]])
    found = a_cost(graph)(np.array([0, 0, 1, 1]))
    assert found == pytest.approx(2 / 20 + 2 * 0.5)


def test_latency_counts_once_a_message() -> None:
    graph = a_graph([[0, 10, 1, 2], [0, 0, 4, 1], [0, 0, 0, 10], [0, 0, 0, 0]], milliseconds=10)
    found = a_cost(graph)(np.array([0, 0, 1, 1]))
    assert found == pytest.approx(2 * (0.01 + 1 / 20) + 2 * (0.01 + 0.5))


def test_single_stage_has_no_pipeline() -> None:
    graph = sites(4, within=10)
    cost = a_cost(graph, Shape.even(num_parts=1, part_size=4))
    assert cost(np.zeros(4, dtype=np.intp)) == pytest.approx(3 * 2 / 40)


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), levels=st.integers(1, 4))
def test_cost_equals_its_definition(seed: int, levels: int) -> None:
    graph = a_random_graph(seed, num_devices=9, levels=levels)
    shape = Shape.even(num_parts=3, part_size=3)
    part_of = shape.shuffled(np.random.default_rng(seed))
    cost = PipelineNetworkCost(graph, shape, gradient_bytes=3e8, activation_bytes=2e8)
    assert cost(part_of) == pytest.approx(
        by_definition(graph, part_of, gradient=3e8, activation=2e8)
    )


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000))
def test_renaming_devices_and_parts_changes_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph, shape = sites(4, 3, 1), Shape.even(num_parts=4, part_size=2)
    part_of = shape.shuffled(rng)
    order, names = rng.permutation(8), rng.permutation(4)
    renamed = DeviceGraph(
        names=tuple(graph.names[number] for number in order),
        latency_seconds=graph.latency_seconds[np.ix_(order, order)],
        bytes_per_second=graph.bytes_per_second[np.ix_(order, order)],
        weights=graph.weights[order],
    )
    assert a_cost(graph, shape)(part_of) == pytest.approx(
        a_cost(renamed, shape)(names[part_of[order]])
    )


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000))
def test_order_uses_the_links_that_the_cost_counted(seed: int) -> None:
    graph = a_random_graph(seed, num_devices=12)
    shape = Shape.even(num_parts=4, part_size=3)
    cost = a_cost(graph, shape)
    part_of = shape.shuffled(np.random.default_rng(seed))

    order = cost.order(Partition.of(part_of))

    assert sorted(device for stage in order.stages for device in stage) == list(range(12))
    seconds = graph.transfer_seconds(GIGABIT)
    slowest = [
        max(seconds[i, j] for i, j in zip(one, other, strict=True))
        for one, other in pairwise(order.stages)
    ]
    assert sum(slowest) == pytest.approx(order.pipeline_seconds)
    assert order.total_seconds == pytest.approx(cost(part_of))


def test_stages_of_two_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"stages must be of one size, got \(1, 3\)"):
        a_cost(sites(4), Shape(part_sizes=(1, 3)))


def test_shape_that_leaves_devices_over_is_refused() -> None:
    with pytest.raises(ValueError, match="part_sizes must take all 5 devices, got 4"):
        a_cost(sites(5))
