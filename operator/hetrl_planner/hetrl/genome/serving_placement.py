"""Placement of replicas that serve on the GPUs of one site: as many as fit.

GPUs of a site may have unequal room if other tasks keep parts of their models. Separate placements
give each GPU the most room, a common one fits larger replicas. The faster one is taken.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod

from hetrl_core.task import Task
from hetrl_planner.hetrl.genome.assigned_gpus import Block, Owned, Segment
from hetrl_planner.layout.fit.fitting import SplitFitter
from hetrl_planner.layout.fit.ranked import Split
from hetrl_planner.layout.layout import PipelineStage, ReplicaLayout

MOST_KNOWN = 20_000
"""Placements that are remembered; one takes about a kilobyte."""


@dataclass(frozen=True, slots=True)
class Served:
    """Replicas of one site, their trajectories a second, and the GPUs that they leave."""

    replicas: tuple[ReplicaLayout, ...]
    rate: float
    left: tuple[Segment, ...]


_Asked = tuple[Task, int, Split | None, bool, tuple[Task, ...], tuple[Segment, ...], int]


class PlacementCache:
    """Remembered placements: a search requests the same GPUs repeatedly."""

    def __init__(self) -> None:
        self._known: dict[_Asked, Served] = {}

    def get(self, asked: _Asked, place: Callable[[], Served]) -> Served:
        """Return a remembered placement, or make one."""
        if (known := self._known.get(asked)) is not None:
            return known
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[asked] = placed = place()
        return placed


@dataclass(frozen=True, slots=True)
class ServingPlacer:
    """The placement of one task's replicas on one site."""

    fitting: SplitFitter
    task: Task
    site: int
    chosen: Split | None
    is_before_generation: bool
    known: PlacementCache
    alike: tuple[Task, ...] = ()
    """Tasks that are cut as this one, itself included; empty if each has its own cut."""

    def apart(self, places: Mapping[int, Sequence[Segment]]) -> Served:
        """Serve on GPUs with much and with little room apart, and on the rest of both together."""
        served = [self.filled(places[reserved], reserved) for reserved in sorted(places)]
        if len(places) > 1:
            served.append(self.filled([each for one in served for each in one.left], max(places)))
        return Served(
            replicas=tuple(replica for each in served for replica in each.replicas),
            rate=sum(each.rate for each in served),
            left=served[-1].left,
        )

    def filled(self, machines: Sequence[Segment], reserved: int) -> Served:
        """Place as many replicas of a split as fit, then smaller ones."""
        segments = tuple(machines)
        return self.known.get(
            (
                self.task,
                self.site,
                self.chosen,
                self.is_before_generation,
                self.alike,
                segments,
                reserved,
            ),
            lambda: self._place(segments, reserved),
        )

    def _place(self, machines: tuple[Segment, ...], reserved: int) -> Served:
        splits = self._splits(reserved)
        left, free = machines, sum(number for *_, number in machines)
        replicas: list[ReplicaLayout] = []
        rate = 0.0
        fastest = next(iter(splits), None)
        first = fastest and (self._chosen or fastest)
        # The GPUs that a split leaves may still hold smaller replicas.
        smaller = (split for split in splits if first and prod(split) < prod(first))
        for split in chain((first,) if first else (), smaller):
            if not free:
                break
            if prod(split) <= free:
                found, left = self._replicas(left, split, reserved)
                replicas += found
                free -= prod(split) * len(found)
                rate += len(found) * self._rate(split, reserved)
        return Served(tuple(replicas), rate, left)

    def _splits(self, reserved: int) -> Iterable[Split]:
        """Return the splits that fit, the best first."""
        if self.alike:
            return self.fitting.splits_alike(self.alike, self.site)
        if self.task is not Task.ACTOR_GENERATION and self.is_before_generation:
            return self.fitting.splits_beside_generation(self.site, reserved)
        return self.fitting.splits(self.task, self.site, reserved_bytes=reserved)

    @property
    def _chosen(self) -> Split | None:
        """The chosen split, if all tasks that are cut alike support it."""
        if self.alike and self.chosen not in self.fitting.splits_alike(self.alike, self.site):
            return None
        return self.chosen

    def _rate(self, split: Split, reserved: int) -> float:
        if self.alike:
            return self.fitting.rate_alike(self.alike, self.site, split)
        return self.fitting.rate(self.task, self.site, split, reserved_bytes=reserved)

    def _replicas(
        self, machines: tuple[Segment, ...], split: Split, reserved: int
    ) -> tuple[list[ReplicaLayout], tuple[Segment, ...]]:
        tensor, num_stages = split
        owned = Owned(machines)
        count = owned.num_blocks(tensor) // num_stages
        layers = self.fitting.serving_layers(self.task, self.site, split, reserved_bytes=reserved)
        if layers is None or not count:
            return [], machines
        blocks = owned.blocks(tensor)
        replicas = [
            replica_on(blocks[first : first + num_stages], layers)
            for first in range(0, count * num_stages, num_stages)
        ]
        return replicas, tuple(owned.without(count * num_stages, tensor))


def replica_on(blocks: Sequence[Block], layers: Sequence[int]) -> ReplicaLayout:
    """Return a replica with so many layers on each block."""
    return tuple([PipelineStage(block, count) for block, count in zip(blocks, layers, strict=True)])
