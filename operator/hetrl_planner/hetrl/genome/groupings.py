"""Level 1: every partition of an iteration's tasks into groups that share GPUs."""

from collections.abc import Iterator, Sequence

from hetrl_core.plan.groupings import GROUPINGS, grouping, partitions
from hetrl_core.task import TRAINING_TASKS, Task

Grouping = tuple[tuple[Task, ...], ...]
"""Task groups; tasks within one, and groups by their first task, in the iteration's order."""


def groupings(
    tasks: Sequence[Task], *, runnable_only: bool = False, generation_apart: bool = False
) -> Iterator[Grouping]:
    """Yield every partition of the tasks: Bell(4) = 15 for four, Bell(6) = 203 for six.

    ``runnable_only`` keeps those that this release runs, ``generation_apart`` those whose
    generation is not on GPUs that train.
    """
    for groups in partitions(tasks):
        if runnable_only and grouping(groups) not in GROUPINGS:
            continue
        if not generation_apart or not any(_generates_and_trains(group) for group in groups):
            yield tuple(tuple(group) for group in groups)


def disjoint(tasks: Sequence[Task]) -> Grouping:
    """Return phase 1's grouping: generation apart, and all else together."""
    return (
        (Task.ACTOR_GENERATION,),
        tuple(task for task in tasks if task is not Task.ACTOR_GENERATION),
    )


def _generates_and_trains(group: Sequence[Task]) -> bool:
    return Task.ACTOR_GENERATION in group and bool(TRAINING_TASKS.intersection(group))
