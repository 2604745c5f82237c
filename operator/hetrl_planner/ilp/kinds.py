"""Kinds of task groups, and the tasks of a group of each kind.

All models have the actor's dimensions, so a kind is whether a group generates, how many models it
scores with, and how many it trains.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import product

from hetrl_core.task import Task
from hetrl_planner.hetrl.genome.groupings import Grouping, groupings

Classes = tuple[tuple[Task, ...], ...]

CLASSES: Classes = (
    (Task.ACTOR_GENERATION,),
    (Task.REFERENCE_INFERENCE, Task.REWARD_INFERENCE, Task.CRITIC_INFERENCE),
    (Task.ACTOR_TRAINING,),
    (Task.CRITIC_TRAINING,),
)
"""Tasks that may change places, for all models have the actor's dimensions."""

CLASSES_THAT_RUN: Classes = (
    (Task.ACTOR_GENERATION,),
    (Task.REFERENCE_INFERENCE, Task.CRITIC_INFERENCE),
    (Task.ACTOR_TRAINING,),
    (Task.CRITIC_TRAINING,),
    (Task.REWARD_INFERENCE,),
)
"""The classes if a reward model may not be cut as the others."""

GENERATES, TRAINS_ACTOR, TRAINS_CRITIC = 0, 2, 3
"""Positions in a kind; the others count tasks that score."""

Kind = tuple[int, ...]
"""Tasks of each class that a group has."""


class Kinds:
    """The kinds of groups that one job's tasks may make."""

    def __init__(
        self, tasks: Sequence[Task], *, runnable_only: bool, generation_apart: bool = False
    ) -> None:
        self._tasks = tasks
        self._generation_apart = generation_apart
        self._runnable_only = runnable_only
        self._classes = CLASSES_THAT_RUN if runnable_only else CLASSES

    @cached_property
    def everything(self) -> Kind:
        """The kind of a group that has all tasks."""
        return self._kind(self._tasks)

    @cached_property
    def each(self) -> tuple[Kind, ...]:
        """Groups that a layout may have; each comes after its ``parts``."""
        if self._runnable_only:
            run = {self._kind(group) for grouping in self._groupings for group in grouping}
            return tuple(sorted(run, key=lambda kind: (not kind[GENERATES], kind)))
        counts = [range(count + 1) for count in self.everything]
        return tuple(kind for kind in product(*counts) if any(kind))

    def parts(self, kind: Kind) -> Iterator[Kind]:
        """Yield the groups that do one task less, and fit wherever this one does.

        None if plans must run: tasks that share GPUs are cut alike, and one more task may require
        another cut that fits.
        """
        if self._runnable_only:
            return
        for number, count in enumerate(kind):
            if count:
                yield tuple(each - (index == number) for index, each in enumerate(kind))

    def named(self, kinds: Sequence[Kind]) -> list[tuple[Task, ...]] | None:
        """Return the tasks of groups, ``None`` if no such groups may be together."""
        if self._runnable_only:
            named = (self._picked(grouping, kinds) for grouping in self._groupings)
            return next((each for each in named if each), None)
        waiting = [[task for task in alike if task in self._tasks] for alike in self._classes]
        return [
            tuple(waiting[number].pop(0) for number, count in enumerate(kind) for _ in range(count))
            for kind in kinds
        ]

    @cached_property
    def _groupings(self) -> tuple[Grouping, ...]:
        return tuple(
            groupings(self._tasks, runnable_only=True, generation_apart=self._generation_apart)
        )

    def _kind(self, group: Sequence[Task]) -> Kind:
        return tuple(sum(task in alike for task in group) for alike in self._classes)

    def _picked(self, grouping: Grouping, kinds: Sequence[Kind]) -> list[tuple[Task, ...]] | None:
        """Return a group of each kind, ``None`` if there are not as many."""
        left, picked = list(grouping), []
        for kind in kinds:
            group = next((each for each in left if self._kind(each) == kind), None)
            if group is None:
                return None
            left.remove(group)
            picked.append(group)
        return picked


def scores(kind: Kind) -> bool:
    """Tell whether a group scores."""
    others = {GENERATES, TRAINS_ACTOR, TRAINS_CRITIC}
    return any(count for number, count in enumerate(kind) if number not in others)


def trains_one(kind: Kind, everything: Kind) -> bool:
    """Tell whether a group trains one of a job's two models, so that another trains the other."""
    has_two = everything[TRAINS_ACTOR] and everything[TRAINS_CRITIC]
    return bool(has_two) and kind[TRAINS_ACTOR] != kind[TRAINS_CRITIC]


def trains(kind: Kind) -> bool:
    """Tell whether a group trains."""
    return bool(kind[TRAINS_ACTOR] or kind[TRAINS_CRITIC])


def twin(kind: Kind) -> Kind:
    """Return the kind of a group that trains the critic where this one trains the actor."""
    changed = list(kind)
    changed[TRAINS_ACTOR], changed[TRAINS_CRITIC] = kind[TRAINS_CRITIC], kind[TRAINS_ACTOR]
    return tuple(changed)
