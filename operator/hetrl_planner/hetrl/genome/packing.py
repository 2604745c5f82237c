"""Packing of the tasks of a small group: the least time within the memory of every GPU.

Tasks of a group take turns, so their times add up, and the memory of each limits the others.
Placing one after the other, as ``decode`` does, fails if memory is tight; on a few GPUs branch and
bound over all combinations is possible instead.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise

from hetrl_core.task import SCORING_TASKS, Task
from hetrl_planner.cost.memory import overhead_bytes
from hetrl_planner.cost.network import WeightSync
from hetrl_planner.hetrl.genome.assigned_gpus import Owned
from hetrl_planner.hetrl.genome.ways import Way, Ways
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.layout import Layout, TaskLayout
from hetrl_planner.layout.weights import WeightPaths

MAX_VISITED_WAYS = 3_000
"""Ways that each pass tries, after which the best so far is taken."""

Found = tuple[TaskLayout, ...]


class Packing:
    """The packing of one group."""

    def __init__(
        self, evaluator: Evaluator, ways: Ways, tasks: Sequence[Task], owned: Owned
    ) -> None:
        self._evaluator = evaluator
        # Generation last: its cache takes the room that the others leave.
        ordered = sorted(tasks, key=lambda task: task is Task.ACTOR_GENERATION)
        self._is_like_the_last = [False, *(set(two) <= SCORING_TASKS for two in pairwise(ordered))]
        self._ways = [ways.of(task, owned) for task in ordered]
        fastest = [several[0].seconds if several else 0.0 for several in self._ways]
        self._to_come = [*list(accumulate(reversed(fastest)))[::-1], 0.0][1:]
        least_bytes = [min(map(_kept_bytes, several), default=0.0) for several in self._ways]
        self._bytes_to_come = [*list(accumulate(reversed(least_bytes)))[::-1], 0.0][1:]
        self._num_visited = 0
        self._least = float("inf")
        self._best: Found | None = None
        self._generated: dict[tuple[int, int, tuple[float, ...]], float | None] = {}
        self._weight_syncs: dict[tuple[int, int], Sequence[WeightSync]] = {}
        devices = evaluator.devices
        gpus = [gpu for _, first, count in owned.machines for gpu in range(first, first + count)]
        kinds = [devices.kind(devices.gpu_machines[gpu]) for gpu in gpus]
        self._resident = dict.fromkeys(gpus, 0.0)
        self._working = dict.fromkeys(gpus, 0.0)
        self._room = {
            gpu: kind.memory_bytes - overhead_bytes(kind)
            for gpu, kind in zip(gpus, kinds, strict=True)
        }

    def best(self) -> Found | None:
        """Return the tasks' layouts, ``None`` if none fit together.

        Searches three times: the smallest ways first, to find any; a compromise; the fastest.
        """
        by_seconds = self._ways
        for key in (_kept_bytes, _kept_byte_seconds, _seconds):
            self._ways = [tuple(sorted(several, key=key)) for several in by_seconds]
            self._num_visited = 0
            if all(self._ways):
                self._place((), 0.0, 0)
        return self._best

    def _place(self, placed: Found, seconds: float, last: int) -> None:
        """Try the ways of the next task beside those placed; ``last`` is the last one's way.

        Tasks that score cost the same, so permutations of their ways are skipped.
        """
        number = len(placed)
        if number == len(self._ways):
            self._least, self._best = seconds, placed
            return
        first = last if self._is_like_the_last[number] else 0
        for index, way in enumerate(self._ways[number][first:], start=first):
            self._num_visited += 1
            if self._num_visited > MAX_VISITED_WAYS:
                return
            is_promising = seconds + way.seconds + self._to_come[number] < self._least
            if is_promising and self._fits(way):
                self._place_next(placed, way, seconds, index)

    def _fits(self, way: Way) -> bool:
        return all(
            self._resident[gpu] + each.resident_bytes + max(self._working[gpu], each.working_bytes)
            <= self._room[gpu]
            for gpu, each in way.footprints.items()
        )

    def _place_next(self, placed: Found, way: Way, seconds: float, index: int) -> None:
        if way.task.task is Task.ACTOR_GENERATION:
            taken = self._generating_seconds((*placed, way.task))
            if taken is not None and seconds + taken < self._least:
                self._place((*placed, way.task), seconds + taken, index)
            return
        before = {gpu: (self._resident[gpu], self._working[gpu]) for gpu in way.footprints}
        for gpu, each in way.footprints.items():
            self._resident[gpu] += each.resident_bytes
            self._working[gpu] = max(self._working[gpu], each.working_bytes)
        if (
            sum(self._room.values()) - sum(self._resident.values())
            >= self._bytes_to_come[len(placed)]
        ):
            self._place((*placed, way.task), seconds + way.seconds, index)
        for gpu, (resident, working) in before.items():
            self._resident[gpu], self._working[gpu] = resident, working

    def _generating_seconds(self, placed: Found) -> float | None:
        """Return generation's time beside all others, resharding counted."""
        *others, generation = placed
        trained = next((each for each in others if each.task is Task.ACTOR_TRAINING), None)
        kept = tuple([self._resident[gpu] for gpu in generation.gpus])
        # The others leave it the same room in many ways. Ways own their layouts and outlive the
        # search, so an id identifies a layout.
        key = (id(generation), id(trained), kept)
        if key not in self._generated:
            weights = self._weights(trained, generation) if trained else None
            self._generated[key] = self._evaluator.generating_seconds(
                generation, self._resident, weights
            )
        return self._generated[key]

    def _weights(self, trained: TaskLayout, generation: TaskLayout) -> Sequence[WeightSync]:
        key = (id(trained), id(generation))
        if key not in self._weight_syncs:
            evaluator = self._evaluator
            together = Layout(((trained, generation),))
            paths = WeightPaths(together, evaluator.work, evaluator.devices)
            self._weight_syncs[key] = paths.syncs
        return self._weight_syncs[key]


def _kept_bytes(way: Way) -> float:
    return sum(each.resident_bytes for each in way.footprints.values())


def _seconds(way: Way) -> float:
    return way.seconds


def _kept_byte_seconds(way: Way) -> float:
    return way.seconds * (1.0 + _kept_bytes(way))
