"""DT-FM's networks and its search, as the benchmark of partitions uses them."""

import numpy as np
import pytest

from bench.planner.dtfm import CASES, NUM_GPUS, CyclicMoves
from hetrl_planner.partition.network import PipelineNetworkCost
from hetrl_planner.partition.search.evolution import Breeding, evolve
from hetrl_planner.partition.search.search import minimise
from hetrl_planner.partition.shape import Shape
from tests.partition.builders import sites

GIGABIT = 1e9 / 8


# Gbit/s and milliseconds of GPUs 0-1 (neighbours) and of 0-63 and 31-32 (far apart).
@pytest.mark.parametrize(
    ("case", "classes", "gbps", "milliseconds"),
    [
        ("on-demand data center", 8, (100, 3.125, 3.125), (0, 0, 0)),
        ("spot data center", 9, (100, 1.25, 1.25), (0, 0, 0)),
        ("two sites", 2, (5, 1.12, 1.12), (1, 11, 11)),
        ("four US regions", 4, (2, 1.12, 1.25), (5, 11, 12)),
        ("eight world regions", 8, (2, 0.482, 1.10), (5, 124, 34)),
    ],
)
def test_dtfm_cases_have_the_published_links(
    case: str, classes: int, gbps: tuple[float, ...], milliseconds: tuple[float, ...]
) -> None:
    graph = CASES[case]()
    pairs = ([0, 0, 31], [1, 63, 32])
    assert len(graph) == NUM_GPUS
    assert len(np.unique(graph.class_of)) == classes
    assert graph.bytes_per_second[pairs] / GIGABIT == pytest.approx(gbps)
    assert graph.latency_seconds[pairs] * 1e3 == pytest.approx(milliseconds)


def test_dtfm_search_improves_on_its_population() -> None:
    graph, shape = sites(4, 4, 4, 4), Shape.even(num_parts=4, part_size=4)
    rng = np.random.default_rng(0)
    cost = PipelineNetworkCost(graph, shape, gradient_bytes=3e8, activation_bytes=2e8)
    moves = CyclicMoves(shape=shape, transfer_seconds=graph.transfer_seconds(2e8))
    search = evolve(
        shape, rng, local_search=moves, breeding=Breeding(population_size=10, max_children=200)
    )
    first = min(cost(shape.shuffled(np.random.default_rng(seed))) for seed in range(10))
    best = minimise(search, cost, max_evaluations=10_000)
    assert best.ended_by == "work"
    assert best.evaluations == 210
    assert best.cost < first
