"""The cheapest order in which to visit every part once: an open Hamiltonian path.

Exact up to ``MAX_EXACT`` parts (Held and Karp, 1962); beyond, nearest neighbour from every
start, then 2-opt, which is a heuristic and may miss the optimum.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hetrl_planner.partition.graph import Matrix

MAX_EXACT = 12
"""Parts up to which a search can afford 2^n · n² steps: 0.6 million at 12."""


def shortest_path(distances: Matrix) -> tuple[float, tuple[int, ...]]:
    """Return the length of a shortest path through all points, and the points in order.

    Args:
        distances: shape (points, points), symmetric; the diagonal means nothing.
    """
    if len(distances) == 1:
        return 0.0, (0,)
    return held_karp(distances) if len(distances) <= MAX_EXACT else two_opt(distances)


def held_karp(distances: Matrix) -> tuple[float, tuple[int, ...]]:
    """Return the optimum: ``best[set, last] = min over i of best[set - last, i] + d[i, last]``."""
    count = len(distances)
    best = np.full((1 << count, count), np.inf)
    best[1 << np.arange(count), np.arange(count)] = 0.0
    for before, last, after in _layers(count):
        reached = (best[before][:, :, None] + distances).min(axis=1)
        best[after, last] = reached[np.arange(len(before))[:, None], last]
    return float(best[-1].min()), _walk_back(best, distances)


@lru_cache(maxsize=MAX_EXACT)
def _layers(count: int) -> tuple[tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]], ...]:
    """Return, per set size: the sets, the points outside each, and the sets with those added."""
    layers = []
    sets = np.arange(1 << count)
    members = (sets[:, None] >> np.arange(count)) & 1
    for size in range(1, count):
        before = sets[members.sum(axis=1) == size]
        last = np.nonzero(members[before] == 0)[1].reshape(len(before), count - size)
        layers.append((before, last, before[:, None] | (1 << last)))
    return tuple(layers)


def _walk_back(best: Matrix, distances: Matrix) -> tuple[int, ...]:
    visited = len(best) - 1
    last = int(best[visited].argmin())
    order = [last]
    while visited := visited & ~(1 << last):
        last = int((best[visited] + distances[:, last]).argmin())
        order.append(last)
    return tuple(reversed(order))


def two_opt(distances: Matrix) -> tuple[float, tuple[int, ...]]:
    """Return a path that no reversal of a stretch shortens."""
    starts = (_nearest_neighbours(distances, start) for start in range(len(distances)))
    order = min(starts, key=lambda each: path_length(distances, each))
    while (better := _best_reversal(distances, order)) is not None:
        order = better
    return path_length(distances, order), tuple(order)


def path_length(distances: Matrix, order: list[int] | tuple[int, ...]) -> float:
    """Return the length of the path through the points in that order."""
    return float(distances[order[:-1], order[1:]].sum())


def _nearest_neighbours(distances: Matrix, start: int) -> list[int]:
    order, left = [start], set(range(len(distances))) - {start}
    while left:
        nearest = min(left, key=lambda point: (distances[order[-1], point], point))
        order.append(nearest)
        left.remove(nearest)
    return order


def _best_reversal(distances: Matrix, order: list[int]) -> list[int] | None:
    """Return the path with the best stretch reversed, ``None`` when none is shorter."""
    count = len(order)
    best, best_length = None, path_length(distances, order) - 1e-12
    for first in range(count - 1):
        for end in range(first + 2, count + 1):
            candidate = order[:first] + order[first:end][::-1] + order[end:]
            length = path_length(distances, candidate)
            if length < best_length:
                best, best_length = candidate, length
    return best
