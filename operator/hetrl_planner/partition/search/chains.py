"""Chains of swaps after Kernighan and Lin, by any cost, which is evaluated for every swap.

Each step swaps the two devices of different parts that gain most, or lose least, and locks
them; of the chain, the best prefix is kept. A chain walks through worse partitions to better
ones, which swapping only for gain cannot. Where edges alone decide,
``kernighan_lin`` is a thousand times faster.
"""

from dataclasses import dataclass

import numpy as np

from hetrl_planner.partition.graph import Labels
from hetrl_planner.partition.search.search import Proposals


@dataclass(frozen=True, slots=True, kw_only=True)
class Chains:
    """The effort of a chain. Constants of ours."""

    max_length: int = 8
    """Swaps of a chain that has found nothing better."""

    max_swaps: int = 256
    """Swaps that are tried for one step; where there are more, as many are drawn."""


@dataclass(frozen=True, slots=True)
class Improved:
    """Labels and their cost, the result of local search."""

    part_of: Labels
    cost: float


def swap_chains(
    start: Labels, class_of: Labels, rng: np.random.Generator, *, chains: Chains
) -> Proposals[Improved]:
    """Propose chains of swaps from a partition until one finds nothing better.

    Returns:
        The best partition met; never worse than ``start``, and of the same shape.
    """
    current = Improved(start, (yield start))
    while True:
        better = yield from _chain(current, class_of, rng, chains)
        if better.cost >= current.cost:
            return current
        current = better


def _chain(
    start: Improved, class_of: Labels, rng: np.random.Generator, chains: Chains
) -> Proposals[Improved]:
    """Propose one chain; return its best prefix."""
    best = now = start
    is_free = np.ones(len(class_of), dtype=bool)
    steps_without_gain = 0
    while steps_without_gain < chains.max_length:
        swaps = _swaps(now.part_of, class_of, is_free)
        if not len(swaps):
            break
        if len(swaps) > chains.max_swaps:
            swaps = swaps[rng.choice(len(swaps), size=chains.max_swaps, replace=False)]
        costs = np.empty(len(swaps))
        for number, (one, other) in enumerate(swaps):
            costs[number] = yield swapped(now.part_of, one, other)
        one, other = swaps[costs.argmin()]
        now = Improved(swapped(now.part_of, one, other), float(costs.min()))
        is_free[[one, other]] = False
        steps_without_gain += 1
        if now.cost < best.cost:
            best, steps_without_gain = now, 0
    return best


def swapped(part_of: Labels, one: int, other: int) -> Labels:
    """Return the partition with two devices exchanged."""
    exchanged = part_of.copy()
    exchanged[one], exchanged[other] = part_of[other], part_of[one]
    return exchanged


def _swaps(part_of: Labels, class_of: Labels, is_free: np.ndarray) -> Labels:
    """Return pairs of free devices to swap, one for each that makes a difference; shape (n, 2)."""
    free = np.flatnonzero(is_free)
    cells = part_of[free] * (class_of.max() + 1) + class_of[free]
    devices = free[np.unique(cells, return_index=True)[1]]
    first, second = np.triu_indices(len(devices), k=1)
    one, other = devices[first], devices[second]
    differ = (part_of[one] != part_of[other]) & (class_of[one] != class_of[other])
    return np.stack([one[differ], other[differ]], axis=1)
