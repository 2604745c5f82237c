"""DT-FM's networks whose optimum can be known: it is found, and within a few evaluations."""

from collections.abc import Iterator

import numpy as np
import pytest

from bench.planner.dtfm import ACTIVATION_BYTES, CASES, GRADIENT_BYTES, SHAPE, two_sites
from hetrl_planner.partition.find import find_partition
from hetrl_planner.partition.network import PipelineNetworkCost

GIGABIT = 1e9 / 8


def found_cost(case: str, *, seed: int) -> float:
    graph = CASES[case]()
    return find_partition(
        graph,
        SHAPE,
        a_cost(case),
        np.random.default_rng(seed),
        message_bytes=ACTIVATION_BYTES,
        max_evaluations=300,
    ).cost


def a_cost(case: str) -> PipelineNetworkCost:
    return PipelineNetworkCost(
        CASES[case](), SHAPE, gradient_bytes=GRADIENT_BYTES, activation_bytes=ACTIVATION_BYTES
    )


def gradient_seconds(gbps: float) -> float:
    return 2 * GRADIENT_BYTES / 8 / (gbps * GIGABIT)


def activation_seconds(gbps: float) -> float:
    return ACTIVATION_BYTES / (gbps * GIGABIT)


def splits(total: int, *, parts: int, most: int) -> Iterator[tuple[int, ...]]:
    """Non-increasing numbers up to ``most`` that add up."""
    if parts == 0:
        if total == 0:
            yield ()
        return
    for first in range(min(most, total), -1, -1):
        for rest in splits(total - first, parts=parts - 1, most=first):
            yield (first, *rest)


def test_data_center_gets_pipelines_inside_its_instances() -> None:
    # Seven fast hops need equal stages: one GPU of each instance in each of them. One slow hop
    # costs 2.4 s and leaves four stages equal, which save 0.4 s; two cost more than all gradients.
    optimum = 7 * gradient_seconds(3.125) + 2 * 7 * activation_seconds(100)
    assert found_cost("on-demand data center", seed=1) == pytest.approx(optimum)


def test_spot_instances_make_one_fast_stretch() -> None:
    # A single GPU has slow links alone; only four stages hold none, so three hops can be fast.
    optimum = 7 * gradient_seconds(1.25) + 2 * (
        3 * activation_seconds(100) + 4 * activation_seconds(1.25)
    )
    assert found_cost("spot data center", seed=1) == pytest.approx(optimum)


def test_best_division_of_two_sites_is_found() -> None:
    cost, site_of = a_cost("two sites"), two_sites().class_of
    optimum = np.inf
    for counts in splits(32, parts=8, most=8):
        part_of = np.empty(64, dtype=np.intp)
        part_of[site_of == 0] = np.repeat(np.arange(8), counts)
        part_of[site_of == 1] = np.repeat(np.arange(8), [8 - count for count in counts])
        optimum = min(optimum, cost(part_of))
    assert found_cost("two sites", seed=1) == pytest.approx(optimum)
