"""A rollout replica's rate over its concurrency, on a grid and bounded by tangents.

``generation`` has the cost itself; searches choose the places of a replica.
"""

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

from hetrl_planner.cost.generation import GenerationCost


@dataclass(frozen=True, slots=True, kw_only=True)
class Tangent:
    """``intercept + slope·concurrency`` bounds a replica's rate, and is exact at ``at``."""

    at: int
    intercept: float
    slope: float


@dataclass(frozen=True, kw_only=True)
class Serving:
    """One replica that generates, and its largest concurrency."""

    cost: GenerationCost
    max_concurrency: int
    """Trajectories that the KV cache of one replica holds."""

    def samples_per_second(self, concurrency: float) -> float:
        """Return one replica's rate with so many trajectories at once."""
        return self.cost.samples_per_second(concurrency)

    @cached_property
    def tangents(self) -> tuple[Tangent, ...]:
        """Lines that touch the rate from above at each point of the grid."""
        found = []
        for at, here in zip(self.concurrency_grid, self.grid_rates, strict=True):
            nearby = at * 1.001
            slope = (self.samples_per_second(nearby) - here) / (nearby - at)
            found.append(Tangent(at=at, intercept=here - at * slope, slope=slope))
        return tuple(found)

    @cached_property
    def concurrency_grid(self) -> tuple[int, ...]:
        """Concurrencies at which the rate is computed, a quarter apart."""
        grid = [1]
        while grid[-1] < self.max_concurrency:
            grid.append(min(self.max_concurrency, max(grid[-1] + 1, round(grid[-1] * 1.25))))
        return tuple(grid)

    @cached_property
    def grid_rates(self) -> tuple[float, ...]:
        """The rate at each point of the grid."""
        return tuple(self.samples_per_second(at) for at in self.concurrency_grid)

    @cached_property
    def grid_seconds(self) -> tuple[float, ...]:
        """A trajectory's time at each point of the grid (Little's law)."""
        return tuple(
            at / rate for at, rate in zip(self.concurrency_grid, self.grid_rates, strict=True)
        )

    def concurrency_within(self, seconds: float) -> float:
        """Return how many at once are done within so long each; 0 if not even one is.

        Times are convex in the concurrency, so what lies between two points of the grid is
        slightly faster than the line between them.
        """
        times, grid = self.grid_seconds, self.concurrency_grid
        above = bisect_right(times, seconds)
        if above in {0, len(times)}:
            return float(grid[-1]) if above else 0.0
        share = (seconds - times[above - 1]) / (times[above] - times[above - 1])
        return grid[above - 1] + share * (grid[above] - grid[above - 1])

    def done_within(self, seconds: float) -> float:
        """Return how many are begun and ended within so long, a full cache renewed as they end."""
        longest = self.grid_seconds[-1]
        if seconds < longest:
            return self.concurrency_within(seconds)
        return self.concurrency_grid[-1] * seconds / longest

    def rate_near(self, concurrency: float) -> float:
        """Return one replica's rate quickly, from times between two points of the grid."""
        times, grid = self.grid_seconds, self.concurrency_grid
        above = bisect_right(grid, concurrency)
        if above in {0, len(grid)}:
            return concurrency / times[-1 if above else 0]
        share = (concurrency - grid[above - 1]) / (grid[above] - grid[above - 1])
        return concurrency / (times[above - 1] + share * (times[above] - times[above - 1]))
