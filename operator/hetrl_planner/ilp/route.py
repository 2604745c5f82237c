"""The order of machines in a pipeline: region by region, on the shortest path.

A pipeline's slowest stage sets its pace, hop included, so the longest hop counts first.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise, permutations

from hetrl_planner.cost.inference import hidden_bytes
from hetrl_planner.cost.network import transfer_seconds
from hetrl_planner.layout.devices import MAX_EXACT_REGIONS, Devices
from hetrl_planner.problem.cached_method import cached_method
from hetrl_planner.problem.workload import Workload


class Routes:
    """The ways through the machines of one fleet, each found once."""

    def __init__(self, work: Workload, devices: Devices) -> None:
        self._bytes = hidden_bytes(work)
        self._devices = devices

    def through(self, machines: Iterable[int]) -> list[int]:
        """Return machines in the order of the way whose hops are shortest."""
        here = list(machines)
        regions = frozenset(self._devices.region(machine) for machine in here)
        place = {region: number for number, region in enumerate(self._shortest(regions))}
        return sorted(here, key=lambda machine: place[self._devices.region(machine)])

    @cached_method
    def _shortest(self, regions: frozenset[str]) -> tuple[str, ...]:
        return min(self._ways(sorted(regions)), key=self._hops)

    def _ways(self, regions: Sequence[str]) -> Iterable[tuple[str, ...]]:
        if len(regions) > MAX_EXACT_REGIONS:
            return (self._nearest_first(first, regions) for first in regions)
        return permutations(regions)

    def _nearest_first(self, first: str, regions: Sequence[str]) -> tuple[str, ...]:
        way, left = [first], [region for region in regions if region != first]
        while left:
            way.append(min(left, key=lambda region: self._seconds(way[-1], region)))
            left.remove(way[-1])
        return tuple(way)

    def _hops(self, way: Sequence[str]) -> tuple[float, float]:
        seconds = [self._seconds(source, target) for source, target in pairwise(way)]
        return max(seconds, default=0.0), sum(seconds)

    def _seconds(self, source: str, target: str) -> float:
        return transfer_seconds(self._bytes, self._devices.between(source, target))
