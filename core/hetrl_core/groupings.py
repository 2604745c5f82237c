"""Which tasks the runtime does on the same GPUs: the one list that planner and runtime go by.

Whatever else shares a trainer's GPUs is done by the trainer's own processes, which take turns at
it, with every model cut as the one that acts.
"""

from collections.abc import Iterable

from hetrl_core.task import Task

TaskGroup = frozenset[Task]

GENERATES: TaskGroup = frozenset({Task.ACTOR_GENERATION})

TRAINS: tuple[TaskGroup, ...] = (
    frozenset({Task.ACTOR_TRAINING}),
    frozenset({Task.ACTOR_TRAINING, Task.REFERENCE_INFERENCE}),
    frozenset({Task.ACTOR_TRAINING, Task.CRITIC_INFERENCE, Task.CRITIC_TRAINING}),
    frozenset(
        {
            Task.ACTOR_TRAINING,
            Task.REFERENCE_INFERENCE,
            Task.CRITIC_INFERENCE,
            Task.CRITIC_TRAINING,
        }
    ),
)
"""What a trainer's pod may be told to do."""

GROUPINGS: tuple[frozenset[TaskGroup], ...] = tuple(
    frozenset({GENERATES, trains}) for trains in TRAINS
)
"""Every way of giving an iteration's tasks to groups of GPUs that this release runs."""


def grouping(groups: Iterable[Iterable[Task]]) -> frozenset[TaskGroup]:
    """Return groups of tasks as the list above has them."""
    return frozenset(frozenset(group) for group in groups)


def named(tasks: Iterable[Task]) -> str:
    """Return tasks in words, in the order in which an iteration comes to them."""
    wanted = frozenset(tasks)
    return " and ".join(task for task in Task if task in wanted)
