"""The best layout by branch and bound: as sure as enumeration, and quick enough for five GPUs.

Tasks of a group add up, groups work side by side; so the ways of each are combined first within
a group, then across groups, and combinations that cannot beat the best so far are skipped. Bounds
leave out what only costs more: memory that others keep, weights in transfer, places that scoring
holds. ``evaluate`` prices the remaining layouts whole.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.cost import memory
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.layout.layout import Layout, TaskLayout
from tests.planner.oracle.cuts import Cuts
from tests.planner.oracle.exhaustive import partitions
from tests.planner.oracle.places import shared_places
from tests.planner.oracle.ways import Bytes, Shared, Ways, undominated

SLACK = 0.995
"""Places are shared out on a grid, so that a little more room may cost a trifle of the rate."""

FEW = 2
"""Ways of each task in a first pass over all groupings, which only finds what is to be beaten:
the fastest, and those that keep least."""

Gpus = frozenset[int]
Tasks = tuple[Task, ...]
Owned = tuple[Tasks, Gpus]
"""A task group and the GPUs that it may use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The layouts to visit: by default all."""

    allows_way: Callable[[TaskLayout], bool] = lambda way: True  # noqa: ARG005
    allows_groups: Callable[[Sequence[Tasks]], bool] = lambda groups: True  # noqa: ARG005


EVERYTHING = Space()


def disjoint(devices: Devices, *, trainer_site: int) -> Space:
    """Return AReaL-Hex's space with a trainer there: generation apart, all else on one site."""
    there = {
        gpu
        for gpu in range(devices.num_gpus)
        if devices.machine_sites[devices.gpu_machines[gpu]] == trainer_site
    }
    return Space(
        allows_way=lambda way: way.task is Task.ACTOR_GENERATION or way.gpus <= there,
        allows_groups=lambda groups: (Task.ACTOR_GENERATION,) in groups and len(groups) == 2,
    )


class Optimum:
    """The search for one job's best layout."""

    def __init__(self, evaluator: Evaluator, space: Space = EVERYTHING) -> None:
        self._evaluator = evaluator
        self._work = evaluator.work
        self._devices = evaluator.devices
        self._space = space
        self._ways = Ways(evaluator)
        self._shared: dict[tuple[object, ...], list[Shared]] = {}
        self._least: dict[tuple[Task, Gpus], float] = {}
        self._generating_on: dict[Gpus, list[tuple[float, TaskLayout]]] = {}
        self._rates: dict[tuple[object, ...], float] = {}
        self._few: int | None = None
        self._best: Evaluation | None = None
        self.evaluations = 0

    def find(self) -> Evaluation | None:
        """Return the fastest layout, ``None`` if none fits."""
        bounded = sorted(
            ((self._bound(groups), groups) for groups in self._assignments()),
            key=lambda each: each[0],
        )
        for few in (FEW, None):
            self._few = few
            for bound, groups in bounded:
                if bound >= self._seconds_to_beat:
                    break
                self._visit(groups)
            self._shared.clear()
        return self._best

    @property
    def _seconds_to_beat(self) -> float:
        return self._best.step_seconds * (1 - 1e-9) if self._best else float("inf")

    # Who shares GPUs with whom, and who has which

    def _assignments(self) -> Iterator[tuple[Owned, ...]]:
        for groups in self._groupings():
            for owned in self._owners(len(groups)):
                yield tuple(zip(groups, owned, strict=True))

    def _groupings(self) -> Iterator[tuple[Tasks, ...]]:
        """Yield groupings, once where scoring models, which are alike, only change places."""
        seen = set()
        for groups in partitions(self._work.tasks):
            signature = tuple(sorted(tuple(sorted(map(_likeness, group))) for group in groups))
            if signature not in seen and self._space.allows_groups(groups):
                seen.add(signature)
                yield groups

    def _owners(self, num_groups: int) -> Iterator[tuple[Gpus, ...]]:
        """Yield who may use which GPUs, each group some; ways leave GPUs of theirs idle.

        GPUs of one machine are alike, so their numbers are counted out in order; machines of
        one site and size are, so the first has no smaller counts than the next.
        """
        devices = self._devices
        machines = range(devices.num_machines)
        for counts in product(
            *(
                list(_weak_compositions(devices.machine_sizes[each], num_groups))
                for each in machines
            )
        ):
            is_ordered = all(
                counts[each] >= counts[each + 1]
                for each in machines[:-1]
                if devices.machine_sites[each] == devices.machine_sites[each + 1]
                and devices.machine_sizes[each] == devices.machine_sizes[each + 1]
            )
            if is_ordered and all(map(sum, zip(*counts, strict=True))):
                yield tuple(
                    frozenset(
                        devices.first_gpus[each] + sum(counts[each][:group]) + number
                        for each in machines
                        for number in range(counts[each][group])
                    )
                    for group in range(num_groups)
                )

    # Bounds

    def _bound(self, groups: Sequence[Owned]) -> float:
        """Return a time that no layout of these groups goes below."""
        least = [
            {task: self._least_seconds(task, gpus) for task in tasks} for tasks, gpus in groups
        ]
        if not self._work.is_synchronous:
            return max(sum(each.values()) for each in least)
        return sum(
            max(sum(each.get(task, 0.0) for task in phase) for each in least)
            for phase in self._phases(groups)
        )

    def _phases(self, groups: Sequence[Owned]) -> tuple[Tasks, ...]:
        """Return tasks that run in turn; a policy's proximal passes run as the critic scores."""
        tasks = self._work.tasks
        scoring = tuple(task for task in tasks if _likeness(task) == "scoring")
        training = tuple(task for task in tasks if task in TRAINING_TASKS)
        num_trainers = sum(bool(TRAINING_TASKS.intersection(tasks)) for tasks, _ in groups)
        sides = (scoring, training) if num_trainers == 1 else ((*scoring, *training),)
        return ((Task.ACTOR_GENERATION,), *sides)

    def _least_seconds(self, task: Task, gpus: Gpus) -> float:
        if (task, gpus) not in self._least:
            if task is Task.ACTOR_GENERATION:
                times = (seconds for seconds, _ in self._generating(gpus)[:1])
            else:
                times = (each.seconds for each in self._alone[task] if each.gpus <= gpus)
            self._least[task, gpus] = min(times, default=float("inf"))
        return self._least[task, gpus]

    # One task

    @cached_property
    def _alone(self) -> dict[Task, list[Shared]]:
        """The ways of each task but generation that fit."""
        return {
            task: [
                shared
                for way in self._cuts.layouts(task)
                if self._space.allows_way(way) and (shared := self._ways.alone(way))
            ]
            for task in self._work.training_side
        }

    @cached_property
    def _generation(self) -> list[tuple[float, TaskLayout]]:
        """Least seconds and ways to generate, the fastest first."""
        none = self._ways.nothing().resident
        found = [
            (seconds, way)
            for way in self._cuts.layouts(Task.ACTOR_GENERATION)
            if self._space.allows_way(way)
            and (seconds := self._generation_seconds(way, none)) < float("inf")
        ]
        return sorted(found, key=lambda each: each[0])

    def _generating(self, gpus: Gpus) -> list[tuple[float, TaskLayout]]:
        if gpus not in self._generating_on:
            self._generating_on[gpus] = [each for each in self._generation if each[1].gpus <= gpus]
        return self._generating_on[gpus]

    @cached_property
    def _cuts(self) -> Cuts:
        model = self._work.architecture
        return Cuts(self._devices, model.num_layers, model.num_query_heads)

    def _generation_seconds(self, way: TaskLayout, beside: Bytes) -> float:
        """Return the least time for a batch beside what others keep; infinite if none fits."""
        held: dict[tuple[object, ...], int] = {}
        for replica in way.replicas:
            key = self._ways.replicas.key(replica)
            places = min(
                memory.max_concurrency(
                    placed.shard,
                    placed.kind,
                    self._work,
                    beside_bytes=max(beside[gpu] for gpu in stage.gpus),
                )
                for stage, placed in zip(replica, self._ways.replicas.stages(key), strict=True)
            )
            if places < 1:
                return float("inf")
            held[key, places] = held.get((key, places), 0) + 1
        if len(way.replicas) > self._work.most_running:
            return float("inf")
        signature = tuple(sorted(held.items()))
        if signature not in self._rates:
            self._rates[signature] = self._rate(held)
        return SLACK * self._work.batch_size / self._rates[signature]

    def _rate(self, held: dict[tuple[object, ...], int]) -> float:
        counts = [
            (self._ways.replicas.serving(key, max_concurrency=places), count)  # type: ignore[arg-type]
            for (key, places), count in held.items()
        ]
        shared = shared_places(counts, most_running=self._work.most_running)
        return sum(
            count * serving.samples_per_second(places)
            for (serving, count), places in zip(counts, shared, strict=True)
        )

    # Tasks of one group

    def _together(self, tasks: Tasks, gpus: Gpus, *, beside_generation: bool) -> list[Shared]:
        """Return the ways of a group's tasks but generation that may be part of the best."""
        key = (tasks, gpus, beside_generation)
        if key not in self._shared:
            ways = [self._on(task, gpus) for task in tasks]
            if not all(ways):
                return []
            respects = self._respects(ways, gpus, beside_generation=beside_generation)
            found = [self._ways.nothing()]
            to_come = self._to_come(tasks, gpus, beside_generation=beside_generation)
            for several, more in zip(ways, to_come, strict=True):
                useful = undominated(several, respects=respects)
                both = (self._ways.both(one, other) for one in found for other in useful)
                found = undominated(
                    (each for each in both if each and each.seconds + more < self._seconds_to_beat),
                    respects=respects,
                )
            self._shared[key] = found
        return self._shared[key]

    def _on(self, task: Task, gpus: Gpus) -> list[Shared]:
        """Return the ways of a task on some of these GPUs."""
        found = [each for each in self._alone[task] if each.gpus <= gpus]
        if self._few is None:
            return found
        fast = sorted(found, key=lambda each: each.seconds)[: self._few]
        small = sorted(found, key=lambda each: (each.resident.max(), each.seconds))[: self._few]
        return fast + small

    def _to_come(self, tasks: Tasks, gpus: Gpus, *, beside_generation: bool) -> list[float]:
        """Return what a step takes at least beside each of these tasks and those before it."""
        everywhere = frozenset(range(self._devices.num_gpus))
        least = [self._least_seconds(task, gpus) for task in tasks]
        generating = 0.0
        if beside_generation or self._work.is_synchronous:
            where = gpus if beside_generation else everywhere
            generating = self._least_seconds(Task.ACTOR_GENERATION, where)
        return [generating + sum(least[number + 1 :]) for number in range(len(tasks))]

    def _respects(
        self, ways: Sequence[Sequence[Shared]], gpus: Gpus, *, beside_generation: bool
    ) -> Callable[[Shared], Sequence[float]]:
        """Return in what one combination may be better than another."""
        where = sorted(gpus)
        is_tight = bool(ways) and (
            self._is_tight(ways, where) or (beside_generation and self._costs_cache(ways, gpus))
        )

        def respects(each: Shared) -> Sequence[float]:
            return (
                *self._seconds(each),
                *(each.weights_beside if beside_generation else each.weights_apart),
                *([*each.resident[where], *each.working[where]] if is_tight else []),
            )

        return respects

    def _seconds(self, each: Shared) -> Sequence[float]:
        """Return the times that matter: where two models are trained they may have to keep step."""
        if TRAINING_TASKS.issubset(self._work.tasks):
            gradients = each.training_seconds - each.proximal_seconds
            return [each.scoring_seconds, each.proximal_seconds, gradients]
        if self._work.is_synchronous:
            return [each.scoring_seconds, each.training_seconds]
        return [each.seconds]

    def _is_tight(self, ways: Sequence[Sequence[Shared]], where: Sequence[int]) -> bool:
        """Tell whether some combination does not fit."""
        resident = self._most_resident(ways)
        working = np.max([each.working for several in ways for each in several], axis=0)
        return bool(np.any((resident + working > self._ways.room)[list(where)]))

    def _costs_cache(self, ways: Sequence[Sequence[Shared]], gpus: Gpus) -> bool:
        """Tell whether what other tasks keep can slow generation down."""
        most = self._most_resident(ways)
        return any(
            self._generation_seconds(way, most) > seconds for seconds, way in self._generating(gpus)
        )

    def _most_resident(self, ways: Sequence[Sequence[Shared]]) -> Bytes:
        none = self._ways.nothing().resident
        return sum((np.max([each.resident for each in several], axis=0) for several in ways), none)

    # All of it

    def _visit(self, groups: Sequence[Owned]) -> None:
        """Price what may be best of one assignment of tasks and GPUs."""
        generating = next(each for each in groups if Task.ACTOR_GENERATION in each[0])
        others = [each for each in groups if each is not generating]
        apart = [self._together(*each, beside_generation=False) for each in others]
        tasks = tuple(task for task in generating[0] if task is not Task.ACTOR_GENERATION)
        beside = self._together(tasks, generating[1], beside_generation=True)
        for combination in product(beside, *apart):
            self._generate(combination[0], combination[1:], generating[1])

    def _generate(self, beside: Shared, apart: Sequence[Shared], gpus: Gpus) -> None:
        """Price the ways to generate with these ways of all other tasks."""
        everyone = (beside, *apart)
        if self._work.is_synchronous:
            floor, added = 0.0, _side_seconds(everyone)
        else:
            floor, added = max(each.seconds for each in everyone), beside.seconds
        for least, way in self._generating(gpus):
            if max(floor, least + added) >= self._seconds_to_beat:
                break
            if beside.tasks:
                resident_seconds = self._generation_seconds(way, beside.resident)
                if resident_seconds + added >= self._seconds_to_beat:
                    continue
            self._price(Layout(((way, *beside.tasks), *(each.tasks for each in apart))))

    def _price(self, layout: Layout) -> None:
        self.evaluations += 1
        found = self._evaluator.evaluate(layout)
        if isinstance(found, Evaluation) and found.step_seconds < self._seconds_to_beat:
            self._best = found


def _side_seconds(groups: Sequence[Shared]) -> float:
    """Return what follows generation at least."""
    trainers = [each for each in groups if each.training_seconds]
    looks = [each.proximal_seconds if len(trainers) > 1 else 0.0 for each in groups]
    return max(
        each.scoring_seconds + looked for each, looked in zip(groups, looks, strict=True)
    ) + max(each.training_seconds - looked for each, looked in zip(groups, looks, strict=True))


def _likeness(task: Task) -> str:
    """Name what a task is like: scoring models all score alike."""
    is_alike = task in {
        Task.REFERENCE_INFERENCE,
        Task.REWARD_INFERENCE,
        Task.CRITIC_INFERENCE,
    }
    return "scoring" if is_alike else task


def _weak_compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to write a number as an ordered sum, zeros allowed."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _weak_compositions(total - first, parts - 1):
            yield (first, *rest)
