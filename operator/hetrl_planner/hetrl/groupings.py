"""Level 1: which tasks share GPUs. Every way to divide an iteration's tasks into groups."""

from collections.abc import Iterator, Sequence

from hetrl_core.task import Task

Grouping = tuple[tuple[Task, ...], ...]
"""Task groups; tasks within one, and groups by their first task, in the iteration's order."""


def groupings(tasks: Sequence[Task]) -> Iterator[Grouping]:
    """Yield every partition of the tasks: Bell(4) = 15 for four, Bell(6) = 203 for six."""
    for groups in _partitions(list(tasks)):
        yield tuple(tuple(group) for group in groups)


def _partitions(tasks: list[Task]) -> Iterator[list[list[Task]]]:
    if not tasks:
        yield []
        return
    *before, last = tasks
    for groups in _partitions(before):
        for number, group in enumerate(groups):
            yield [*groups[:number], [*group, last], *groups[number + 1 :]]
        yield [*groups, [last]]
