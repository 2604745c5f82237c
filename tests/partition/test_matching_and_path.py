from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetrl_planner.partition.matching import bottleneck_matching
from hetrl_planner.partition.path import MAX_EXACT, held_karp, path_length, shortest_path, two_opt

Matrix = np.ndarray


def distances(seed: int, count: int) -> Matrix:
    values = np.triu(np.random.default_rng(seed).random((count, count)), k=1)
    return np.asarray(values + values.T)


@given(seed=st.integers(0, 10_000), size=st.integers(1, 5), levels=st.integers(1, 30))
def test_bottleneck_is_the_least_of_all_matchings(seed: int, size: int, levels: int) -> None:
    weights = np.random.default_rng(seed).integers(0, levels, (size, size)).astype(float)
    found = bottleneck_matching(weights.tolist(), rows=[1] * size, columns=[1] * size)

    least = min(
        max(weights[row, column] for row, column in enumerate(order))
        for order in permutations(range(size))
    )
    assert found.bottleneck == least
    assert max(weights[row, column] for row, column, _ in found.pairs) == least
    assert sorted(column for _, column, _ in found.pairs) == list(range(size))


@given(seed=st.integers(0, 10_000), data=st.data())
def test_alike_rows_and_columns_may_be_counted_instead_of_repeated(
    seed: int, data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    columns = [1] * sum(rows)
    weights = np.random.default_rng(seed).integers(0, 9, (len(rows), len(columns))).astype(float)

    counted = bottleneck_matching(weights.tolist(), rows=rows, columns=columns)
    repeated = bottleneck_matching(
        np.repeat(weights, rows, axis=0).tolist(), rows=columns, columns=columns
    )

    assert counted.bottleneck == repeated.bottleneck
    matched = np.zeros(weights.shape, dtype=int)
    for row, column, count in counted.pairs:
        matched[row, column] += count
    assert (list(matched.sum(axis=1)), list(matched.sum(axis=0))) == (rows, columns)


@given(seed=st.integers(0, 10_000), count=st.integers(2, 6))
def test_held_karp_finds_the_shortest_of_all_orders(seed: int, count: int) -> None:
    values = distances(seed, count)
    length, order = held_karp(values)
    assert length == pytest.approx(min(path_length(values, o) for o in permutations(range(count))))
    assert path_length(values, order) == pytest.approx(length)
    assert sorted(order) == list(range(count))


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000))
def test_two_opt_is_close_to_the_optimum_and_never_shorter(seed: int) -> None:
    values = distances(seed, 9)
    assert held_karp(values)[0] - 1e-9 <= two_opt(values)[0] <= 1.5 * held_karp(values)[0]


def test_points_on_a_line_are_visited_along_it_however_many() -> None:
    places = np.random.default_rng(0).permutation(MAX_EXACT + 8).astype(float)
    length, order = shortest_path(np.abs(places[:, None] - places))
    assert length == MAX_EXACT + 7
    assert np.all(np.diff(places[list(order)]) == 1) or np.all(np.diff(places[list(order)]) == -1)


def test_single_point_is_a_path() -> None:
    assert shortest_path(np.zeros((1, 1))) == (0.0, (0,))
