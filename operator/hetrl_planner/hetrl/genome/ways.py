"""Every way to run one task on some GPUs of a small group; ``packing`` chooses one.

Every subset, order and cut of the GPUs is listed, so there must be few. Layers are balanced as in
``training_placement``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product

from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.cost.memory import Footprint
from hetrl_planner.hetrl.genome.assigned_gpus import Owned, Room, Segment
from hetrl_planner.hetrl.genome.genome import Cut
from hetrl_planner.hetrl.genome.training_placement import TaskPlacer
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.fit.fitting import ALL_MODES
from hetrl_planner.layout.fit.ranked import Split
from hetrl_planner.layout.layout import TaskLayout
from hetrl_planner.problem.cached_method import cached_method

MOST_ORDERED = 3
"""Machines whose orders within a pipeline are all tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One task's layout, its time alone and its memory on each GPU."""

    task: TaskLayout
    seconds: float
    footprints: dict[int, Footprint]

    def beats(self, other: "Way") -> bool:
        """Tell whether it is as fast as another way and needs no more anywhere."""
        return self.seconds <= other.seconds and all(
            gpu in other.footprints
            and each.resident_bytes <= other.footprints[gpu].resident_bytes
            and each.working_bytes <= other.footprints[gpu].working_bytes
            for gpu, each in self.footprints.items()
        )


class Ways:
    """The ways of one job's tasks."""

    def __init__(self, evaluator: Evaluator, laying: TaskPlacer) -> None:
        self._evaluator = evaluator
        self._laying = laying
        self._site_of = evaluator.devices.machine_sites

    @cached_method
    def of(self, task: Task, owned: Owned) -> tuple[Way, ...]:
        """Return the ways of a task on all or some of a group's GPUs, the fastest first.

        Those that another one beats are left out.
        """
        return _unbeaten(
            way
            for some in _parts_of(owned)
            for layout in self._layouts(task, some)
            if (way := self._way(layout))
        )

    def _way(self, layout: TaskLayout) -> Way | None:
        evaluator = self._evaluator
        if layout.mode:
            seconds: float | None = evaluator.training_seconds(layout)
        elif layout.task is Task.ACTOR_GENERATION:
            seconds = evaluator.generating_seconds(layout, dict.fromkeys(layout.gpus, 0.0))
        else:
            seconds = evaluator.scoring_seconds(layout)
        if seconds is None:
            return None
        return Way(task=layout, seconds=seconds, footprints=evaluator.footprints(layout))

    def _layouts(self, task: Task, owned: Owned) -> Iterator[TaskLayout]:
        """Yield the layouts of a task on all of these GPUs, or on as many as a cut can use."""
        if task in TRAINING_TASKS:
            yield from self._training_layouts(task, owned)
            return
        for splits in self._splits(task, owned):
            if replicas := tuple(self._laying.serving(task, owned, splits, Room())):
                yield TaskLayout(task, replicas)

    def _training_layouts(self, task: Task, owned: Owned) -> Iterator[TaskLayout]:
        for tensor, num_stages, is_striped in self._laying.shapes(owned.num_gpus):
            for mode in ALL_MODES:
                cut = Cut(tensor, num_stages, mode, is_striped)
                for ordered in _orders(owned) if num_stages > 1 else (owned,):
                    if layout := self._laying.training(task, ordered, cut, Room()):
                        yield layout

    def _splits(self, task: Task, owned: Owned) -> Iterator[dict[int, Split]]:
        """Yield every choice of a split for each site."""
        sites = sorted({self._site_of[machine] for machine, *_ in owned.machines})
        choices = [
            [
                split
                for split in self._laying.fitting.splits(task, site, reserved_bytes=0)
                if split[0] * split[1] <= owned.num_gpus
            ]
            for site in sites
        ]
        for chosen in product(*choices):
            yield dict(zip(sites, chosen, strict=True))


def _parts_of(owned: Owned) -> Iterator[Owned]:
    """Yield every choice of GPUs, at either end of the group's GPUs on each machine."""
    choices: list[list[Segment | None]] = [
        [
            None,
            *(
                (machine, start, size)
                for size in range(1, count + 1)
                for start in dict.fromkeys((first, first + count - size))
            ),
        ]
        for machine, first, count in owned.machines
    ]
    for chosen in product(*choices):
        if segments := tuple(each for each in chosen if each):
            yield Owned(segments)


def _orders(owned: Owned) -> Iterator[Owned]:
    if len(owned.machines) > MOST_ORDERED:
        yield owned
        return
    for machines in permutations(owned.machines):
        yield Owned(machines)


def _unbeaten(ways: Iterator[Way]) -> tuple[Way, ...]:
    found: list[Way] = []
    for way in sorted(ways, key=lambda each: each.seconds):
        if not any(each.beats(way) for each in found):
            found.append(way)
    return tuple(found)
