"""Groupings of tasks that the runtime does on the same GPUs, for planner and runtime alike.

Any tasks may share GPUs, or have GPUs of their own; a pod has a program for each kind of work that
its GPUs do (``task.programs_of``). Only a critic is never divided: the processes that query it also
train it. All tasks of a group are done by the same replicas, split alike.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import TypeVar

from hetrl_core.task import Task

TaskGroup = frozenset[Task]
Unit = TypeVar("Unit")

GENERATES: TaskGroup = frozenset({Task.ACTOR_GENERATION})

CRITIC = frozenset({Task.CRITIC_INFERENCE, Task.CRITIC_TRAINING})
"""Two tasks of one model, which changes with every step: they stay together."""

_REFERENCE = frozenset({Task.REFERENCE_INFERENCE})
_REWARD = frozenset({Task.REWARD_INFERENCE})

TRAINS: tuple[TaskGroup, ...] = tuple(
    frozenset({Task.ACTOR_TRAINING}) | others
    for others in (frozenset(), _REFERENCE, CRITIC, _REFERENCE | CRITIC)
)
"""What processes do that train the policy: they take turns at it, every model cut as that one."""

TRAINS_CRITIC: tuple[TaskGroup, ...] = (CRITIC, CRITIC | _REFERENCE)
"""What processes do that train a critic apart from its policy, and keep step with that one's."""

SCORES: tuple[TaskGroup, ...] = (_REFERENCE, _REWARD, _REFERENCE | _REWARD)
"""What an inference worker is asked."""

_APART_OR_TOGETHER: tuple[TaskGroup, ...] = (
    GENERATES,
    frozenset({Task.ACTOR_TRAINING}),
    CRITIC,
    _REFERENCE,
    _REWARD,
)
"""What may be done on GPUs of its own or on others': the first two are of every iteration."""

_ALWAYS = 2


def partitions(units: Sequence[Unit]) -> Iterator[list[list[Unit]]]:
    """Yield every way to divide units into groups, units and groups in order."""
    if not units:
        yield []
        return
    *before, last = units
    for groups in partitions(before):
        for number, group in enumerate(groups):
            yield [*groups[:number], [*group, last], *groups[number + 1 :]]
        yield [*groups, [last]]


GROUPINGS: tuple[frozenset[TaskGroup], ...] = tuple(
    frozenset(frozenset[Task]().union(*group) for group in groups)
    for number in range(len(_APART_OR_TOGETHER) - _ALWAYS + 1)
    for more in combinations(_APART_OR_TOGETHER[_ALWAYS:], number)
    for groups in partitions((*_APART_OR_TOGETHER[:_ALWAYS], *more))
)
"""Every way of giving an iteration's tasks to groups of GPUs that this release runs."""


def grouping(groups: Iterable[Iterable[Task]]) -> frozenset[TaskGroup]:
    """Return groups of tasks as the list above has them."""
    return frozenset(frozenset(group) for group in groups)


def named(tasks: Iterable[Task]) -> str:
    """Return tasks in words, in the order in which an iteration comes to them."""
    wanted = frozenset(tasks)
    return " and ".join(task for task in Task if task in wanted)
