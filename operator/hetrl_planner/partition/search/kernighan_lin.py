"""Kernighan-Lin on the graph's edges: it improves METIS's cuts before searches by cost.

Multiway: any two devices of different parts may swap. A pass swaps pair after pair, each
time the pair with the largest gain even where that is a loss, locks both, and keeps the best
prefix; passes follow until one gains nothing (Kernighan and Lin, 1970).
"""

import numpy as np

from hetrl_planner.partition.graph import Labels, Matrix

LEAST_GAIN = 1e-9
"""Gains below are rounding: attractions are of the order of 1."""

MAX_SWAPS_WITHOUT_GAIN = 32
"""Swaps after the best prefix at which a pass ends; ours. Passes over all of hundreds of
devices cost seconds, and METIS's cuts are nearly right."""


def kernighan_lin(part_of: Labels, attraction: Matrix) -> Labels:
    """Return a partition of the same sizes whose parts attract their members no less.

    Args:
        part_of: where to start.
        attraction: how much each two devices would share a part, symmetric, about 0 to 1.
    """
    while True:
        part_of, gain = _pass(part_of, attraction)
        if gain <= LEAST_GAIN:
            return part_of


def _pass(start: Labels, attraction: Matrix) -> tuple[Labels, float]:
    """Return the best prefix of one pass, and what it gains."""
    now = start.copy()
    to_part = attraction @ np.eye(start.max() + 1)[start]
    best, best_gain, gain = start, 0.0, 0.0
    is_locked = np.zeros(len(start), dtype=bool)
    since_best = 0
    while since_best < MAX_SWAPS_WITHOUT_GAIN:
        gains = _gains(now, to_part, attraction, is_locked)
        one, other = np.unravel_index(gains.argmax(), gains.shape)
        if gains[one, other] == -np.inf:
            break
        gain += float(gains[one, other])
        shift = attraction[:, other] - attraction[:, one]
        to_part[:, now[one]] += shift
        to_part[:, now[other]] -= shift
        now[one], now[other] = now[other], now[one]
        is_locked[[one, other]] = True
        since_best += 1
        if gain > best_gain + LEAST_GAIN:
            best, best_gain, since_best = now.copy(), gain, 0
    return best, best_gain


def _gains(part_of: Labels, to_part: Matrix, attraction: Matrix, is_locked: Labels) -> Matrix:
    """Return the growth of the attraction inside parts by each swap; shape (devices, devices)."""
    to_parts_of = to_part[:, part_of]
    moves = to_parts_of - np.diag(to_parts_of)[:, None]
    gains = moves + moves.T - 2 * attraction
    gains[(part_of[:, None] == part_of) | is_locked[:, None] | is_locked] = -np.inf
    return gains
