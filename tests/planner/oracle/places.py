"""A bound on generation: places divided for the highest rate, even if some end late.

The planner lets a synchronous step wait for every trajectory, so no layout makes more than this.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace
from itertools import pairwise

from hetrl_planner.cost.serving import Serving


def shared_places(counts: Sequence[tuple[Serving, int]], *, most_running: int) -> tuple[float, ...]:
    """Share out what may run at once among so many replicas each; return each one's.

    Rates are concave, so giving each next place to the replicas that gain most from it is
    best. Each replica has at least one; the KV cache and the limit end it.
    """
    gains = [_gains(serving) for serving, _ in counts]
    level = [0] * len(counts)
    left = float(most_running - sum(replicas for _, replicas in counts))
    concurrency = [1.0] * len(counts)
    # Losses, for a heap has the smallest first.
    losses = [(-gained[0], index) for index, gained in enumerate(gains) if gained]
    heapify(losses)
    while left > 0 and losses:
        _, index = losses[0]
        serving, replicas = counts[index]
        wanted = serving.concurrency_grid[level[index] + 1] - concurrency[index]
        granted = min(wanted, left / replicas)
        concurrency[index] += granted
        left -= granted * replicas
        level[index] += 1
        if level[index] < len(gains[index]):
            heapreplace(losses, (-gains[index][level[index]], index))
        else:
            heappop(losses)
    return tuple(concurrency)


def _gains(serving: Serving) -> tuple[float, ...]:
    """Return the rate gained by each place from one point of the grid to the next."""
    points = zip(serving.concurrency_grid, serving.grid_rates, strict=True)
    return tuple(
        (rate_there - rate_here) / (there - here)
        for (here, rate_here), (there, rate_there) in pairwise(points)
    )
