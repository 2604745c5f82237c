"""The fleet's GPUs as numbers: which machine holds each, and the wire between two machines.

GPUs of one machine are consecutive, machines of one site too, so that a layout is a few
tuples of small integers. Sites come from ``sites``.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, permutations

from hetrl_core.fleet.snapshot import ClusterSnapshot, GpuKind, Machine
from hetrl_planner.cost.memory import overhead_bytes
from hetrl_planner.cost.network import Channel, between_machines, inside_machine
from hetrl_planner.problem.cached_method import cached_method
from hetrl_planner.problem.sites import Site

MAX_EXACT_REGIONS = 7
"""Regions up to which the best ring through them is found by trying every order."""


@dataclass(frozen=True, kw_only=True)
class Devices:
    """The GPUs that a job may use."""

    snapshot: ClusterSnapshot
    sites: tuple[Site, ...]

    @cached_property
    def machine_sites(self) -> tuple[int, ...]:
        """The site of each machine."""
        return tuple(
            number for number, site in enumerate(self.sites) for _ in range(len(site.machines))
        )

    @cached_property
    def machine_names(self) -> tuple[str, ...]:
        """The name of each machine."""
        return tuple(machine.name for site in self.sites for machine in site.machines)

    @cached_property
    def machine_sizes(self) -> tuple[int, ...]:
        """GPUs of each machine."""
        return tuple(machine.num_gpus for site in self.sites for machine in site.machines)

    @cached_property
    def usable_bytes(self) -> tuple[int, ...]:
        """By site, the bytes of a GPU that models may use."""
        kinds = [site.kind for site in self.sites]
        return tuple(kind.memory_bytes - overhead_bytes(kind) for kind in kinds)

    @cached_property
    def first_gpus(self) -> tuple[int, ...]:
        """The number of each machine's first GPU, and at the end the number of GPUs."""
        firsts = [0]
        for size in self.machine_sizes:
            firsts.append(firsts[-1] + size)
        return tuple(firsts)

    @cached_property
    def gpu_machines(self) -> tuple[int, ...]:
        """The machine of each GPU."""
        return tuple(number for number, size in enumerate(self.machine_sizes) for _ in range(size))

    @property
    def num_gpus(self) -> int:
        """GPUs of all machines."""
        return self.first_gpus[-1]

    @property
    def num_machines(self) -> int:
        """Machines of all sites."""
        return len(self.machine_sizes)

    def machine(self, number: int) -> Machine:
        """Return a machine by its number."""
        return self._machines[number]

    @cached_property
    def _machines(self) -> tuple[Machine, ...]:
        return tuple(machine for site in self.sites for machine in site.machines)

    def site(self, machine: int) -> Site:
        """Return the site of a machine."""
        return self.sites[self.machine_sites[machine]]

    def kind(self, machine: int) -> GpuKind:
        """Return the kind of a machine's GPUs."""
        return self.site(machine).kind

    def region(self, machine: int) -> str:
        """Return the region of a machine."""
        return self.site(machine).region

    def wire(self, source: int, target: int) -> Channel:
        """Return the way from a GPU of one machine to a GPU of another, or of the same."""
        if source == target:
            return self.inside(self.machine_sites[source])
        return self.between(self.region(source), self.region(target))

    def inside(self, site: int) -> Channel:
        """Return the way between two GPUs of one machine of a site."""
        return self._inside[site]

    def hop(self, source: int, target: int, is_same_machine: bool) -> Channel:
        """Return the way from a machine of one site to one of another, or to itself."""
        if is_same_machine:
            return self.inside(source)
        return self.between(self.sites[source].region, self.sites[target].region)

    @cached_property
    def _inside(self) -> tuple[Channel, ...]:
        return tuple(inside_machine(site.kind) for site in self.sites)

    @cached_method
    def between(self, source: str, target: str) -> Channel:
        """Return the way between two machines of these regions."""
        return between_machines(self.snapshot, source, target)

    def ring(self, machines: Iterable[int]) -> Channel:
        """Return the slowest wire of the best ring through machines, several or one."""
        members = sorted(set(machines))
        if len(members) == 1:
            return self.inside(self.machine_sites[members[0]])
        regions = tuple(sorted({self.region(machine) for machine in members}))
        return self._ring_through(regions)

    @cached_method
    def _ring_through(self, regions: tuple[str, ...]) -> Channel:
        first, *others = regions
        if not others:
            return self.between(first, first)
        orders: Iterable[tuple[str, ...]] = (
            permutations(others)
            if len(regions) <= MAX_EXACT_REGIONS
            else (self._nearest_first(first, others),)
        )
        return max(
            (self._slowest((first, *order, first)) for order in orders),
            key=lambda channel: (channel.bytes_per_second, -channel.latency_seconds),
        )

    def _slowest(self, order: tuple[str, ...]) -> Channel:
        hops = [self.between(source, target) for source, target in pairwise(order)]
        return Channel(
            bytes_per_second=min(hop.bytes_per_second for hop in hops),
            latency_seconds=max(hop.latency_seconds for hop in hops),
        )

    def _nearest_first(self, first: str, others: list[str]) -> tuple[str, ...]:
        left, order = set(others), [first]
        while left:
            fastest = max(
                sorted(left), key=lambda each: self.between(order[-1], each).bytes_per_second
            )
            left.remove(fastest)
            order.append(fastest)
        return tuple(order[1:])
