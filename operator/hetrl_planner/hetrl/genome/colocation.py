"""Tasks of several programs on the same GPUs with one cut, the best for all together.

A pod then has one stage of every program, so there are few cuts. All of them are priced, with the
memory that each program leaves the others. ``decode`` chooses the GPUs.
"""

from collections.abc import Iterator

from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.hetrl.genome.assigned_gpus import Owned, Room, only_on, some_of
from hetrl_planner.hetrl.genome.genome import Cut
from hetrl_planner.hetrl.genome.training_placement import TaskPlacer
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Misfit
from hetrl_planner.layout.fit.fitting import ALL_MODES
from hetrl_planner.layout.fit.ranked import Split
from hetrl_planner.layout.layout import TaskLayout
from hetrl_planner.problem.fleet_size import MostGpus

PROMISING = 5
"""Cuts remembered for large groups; in small ones every cut is priced each time. Ours."""

Group = tuple[TaskLayout, ...]

Choice = tuple[tuple[int, ...], Cut]
"""The sites that are used, and the cut there."""

Likeness = tuple[object, ...]


class Colocation:
    """Cuts groups of one job on one fleet."""

    def __init__(self, evaluator: Evaluator, laying: TaskPlacer) -> None:
        self._evaluator = evaluator
        self._laying = laying
        self._site_of = evaluator.devices.machine_sites
        self._best: dict[Likeness, Choice | None] = {}
        self._promising: dict[Likeness, list[Choice]] = {}

    def training(self, tasks: tuple[Task, ...], owned: Owned, cut: Cut | None) -> Group | None:
        """Return a group that trains, with a given cut or the best one.

        ``None`` if nothing fits.
        """
        split = cut and (cut.tensor, cut.num_stages)
        if cut and split and self._laying.fitting.may_be_alike(tasks, split):
            return self._group(tasks, owned, cut)
        key = (*tasks, *((self._site_of[each], count) for each, _, count in owned.machines))
        if key not in self._best:
            self._best[key] = self._search(tasks, owned)
        best = self._best[key]
        if best is None:
            return None
        sites, chosen = best
        return self._group(tasks, only_on(owned, sites, self._site_of), chosen)

    def serving(
        self, tasks: tuple[Task, ...], owned: Owned, chosen: dict[int, Split]
    ) -> Group | None:
        """Return a group that generates or scores, as many replicas as there is room for."""
        laid = self._laying.serving(tasks[0], owned, chosen, Room(), alike=tuple(tasks))
        replicas = tuple(laid)
        return tuple(TaskLayout(task, replicas) for task in tasks) if replicas else None

    def _search(self, tasks: tuple[Task, ...], owned: Owned) -> Choice | None:
        timed = []
        for number, (sites, cut) in enumerate(self._choices(tasks, owned)):
            group = self._group(tasks, only_on(owned, sites, self._site_of), cut)
            seconds = group and self._evaluator.alone_seconds(group)
            if seconds and not isinstance(seconds, Misfit):
                timed.append((sum(seconds.values()), number, (sites, cut)))
        timed.sort(key=lambda each: each[:2])
        if owned.num_gpus > MostGpus.SMALL and timed:
            best = [choice for *_, choice in timed[:PROMISING]]
            self._promising.setdefault(self._likeness(tasks, owned), best)
        return timed[0][-1] if timed else None

    def _choices(self, tasks: tuple[Task, ...], owned: Owned) -> Iterator[Choice]:
        """Yield the cuts that were best on much the same GPUs, or all."""
        if known := self._promising.get(self._likeness(tasks, owned)):
            yield from known
            return
        for some in some_of(self._sites(owned)):
            here = only_on(owned, some, self._site_of)
            for tensor, num_stages, is_striped in self._laying.shapes(here.num_gpus, tasks):
                for mode in ALL_MODES:
                    yield some, Cut(tensor, num_stages, mode, is_striped)

    def _group(self, tasks: tuple[Task, ...], owned: Owned, cut: Cut) -> Group | None:
        leader = next(task for task in TRAINED if task in tasks)
        laid = self._laying.training(leader, owned, cut, Room())
        return tuple(cut_as(laid, task) for task in tasks) if laid else None

    def _sites(self, owned: Owned) -> tuple[int, ...]:
        return tuple(dict.fromkeys(self._site_of[machine] for machine, *_ in owned.machines))

    def _likeness(self, tasks: tuple[Task, ...], owned: Owned) -> Likeness:
        """Return the key of GPUs on which the same cuts are fast."""
        return (*tasks, *sorted(self._sites(owned)), owned.num_gpus.bit_length())


TRAINED = (Task.ACTOR_TRAINING, Task.CRITIC_TRAINING)
"""Tasks in order: the first one in a group determines its cut."""


def cut_as(laid: TaskLayout, task: Task) -> TaskLayout:
    """Return a task of the same replicas as another."""
    return TaskLayout(task, laid.replicas, laid.mode if task in TRAINING_TASKS else None)
