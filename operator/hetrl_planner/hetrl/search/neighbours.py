"""Every genome that differs from one in a single respect, for descent to the nearest optimum.

``variation`` makes such changes at random; here they are all listed, including changes of tasks'
groups, which the arms of ``halving`` keep. ``descent`` limits their number.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations, permutations

from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.hetrl.genome.decode import Decoder
from hetrl_planner.hetrl.genome.genome import Counts, Genome
from hetrl_planner.hetrl.genome.groupings import Grouping


class Neighbours:
    """The neighbours of genomes of one job on one fleet."""

    def __init__(self, decoder: Decoder, groupings: Collection[Grouping]) -> None:
        self._decoder = decoder
        self._groupings = frozenset(groupings)
        self._devices = decoder.fitting.devices

    def of(self, genome: Genome) -> Iterator[Genome]:
        """Yield every neighbour, in no order of quality."""
        listed = chain(
            _either_room(genome),
            self._other_counts(genome),
            self._swapped_counts(genome),
            self._other_uses(genome),
            self._other_cuts(genome),
            self._other_splits(genome),
            self._other_orders(genome),
            self._other_shifts(genome),
            self._other_groups(genome),
            self._exchanged_training(genome),
        )
        screen = self._decoder.screen
        others = dict.fromkeys(map(screen.plain, listed))
        return (each for each in others if each != genome and screen.may_fit(each))

    def _other_counts(self, genome: Genome) -> Iterator[Genome]:
        """Move one GPU of a machine, or all GPUs of a group there."""
        for machine, row in enumerate(self._rows(genome.counts)):
            for gives, takes in permutations(range(len(row)), 2):
                for size in {1, row[gives]} if row[gives] else ():
                    changed = list(row)
                    changed[gives] -= size
                    changed[takes] += size
                    yield _with_row(genome, machine, changed)

    def _swapped_counts(self, genome: Genome) -> Iterator[Genome]:
        """Let two machines change places."""
        for here, there in combinations(range(len(genome.counts)), 2):
            mine, theirs = genome.counts[here], genome.counts[there]
            sizes = self._devices.machine_sizes
            if mine != theirs and sum(mine) <= sizes[there] and sum(theirs) <= sizes[here]:
                yield _with_row(_with_row(genome, here, theirs, 0), there, mine, 0)

    def _rows(self, counts: Counts) -> list[list[int]]:
        sizes = self._devices.machine_sizes
        return [[*row, size - sum(row)] for row, size in zip(counts, sizes, strict=True)]

    def _other_uses(self, genome: Genome) -> Iterator[Genome]:
        """Let a task take another part of its group's GPUs on a machine."""
        for group, tasks in enumerate(genome.grouping):
            for machine, row in enumerate(genome.counts):
                for task in self._decoder.deciding(tasks) if row[group] else ():
                    others = tuple(use for use in genome.uses if use[:2] != (task, machine))
                    for first, count in parts(row[group]):
                        yield replace(genome, uses=(*others, (task, machine, first, count)))
                    if len(others) < len(genome.uses):
                        yield replace(genome, uses=others)

    def _other_cuts(self, genome: Genome) -> Iterator[Genome]:
        for group, tasks in enumerate(genome.grouping):
            num_gpus = sum(row[group] for row in genome.counts)
            for task in _trained([self._decoder.deciding(tasks)]):
                others = tuple(pair for pair in genome.cuts if pair[0] is not task)
                for cut in self._decoder.cuts(task, tasks, num_gpus):
                    yield from _either_room(replace(genome, cuts=(*others, (task, cut))))
                if len(others) < len(genome.cuts):
                    yield replace(genome, cuts=others)

    def _other_splits(self, genome: Genome) -> Iterator[Genome]:
        served = [
            (task, tasks)
            for tasks in genome.grouping
            for task in self._decoder.deciding(tasks)
            if task not in TRAINING_TASKS
        ]
        for task, tasks in served:
            for site in range(len(self._devices.sites)):
                others = tuple(each for each in genome.splits if each[:2] != (task, site))
                for split in self._decoder.splits(task, tasks, site):
                    yield replace(genome, splits=(*others, (task, site, split)))
                if len(others) < len(genome.splits):
                    yield replace(genome, splits=others)

    def _other_orders(self, genome: Genome) -> Iterator[Genome]:
        """Exchange two machines, for all tasks or for one."""
        own = dict(genome.orders)
        for first, last in combinations(range(len(genome.order)), 2):
            yield replace(genome, order=exchanged(genome.order, first, last))
            for task in _trained(genome.grouping):
                order = exchanged(own.get(task, genome.order), first, last)
                yield replace(genome, orders=tuple({**own, task: order}.items()))

    def _other_shifts(self, genome: Genome) -> Iterator[Genome]:
        """Move one layer between two of the first stages, or take a move back."""
        for number in range(len(genome.shifts)):
            yield replace(genome, shifts=genome.shifts[:number] + genome.shifts[number + 1 :])
        for task in _trained(genome.grouping):
            for give, take in permutations(range(self._most_stages), 2):
                yield replace(genome, shifts=(*genome.shifts, (task, give, take)))

    @property
    def _most_stages(self) -> int:
        return min(4, self._decoder.fitting.work.architecture.num_layers, self._devices.num_gpus)

    def _other_groups(self, genome: Genome) -> Iterator[Genome]:
        """Move a task into another group, or join two groups, where such groups are searched."""
        groups = range(len(genome.grouping))
        moved = (
            self._moved(genome, task, here, there)
            for here, there in permutations(groups, 2)
            for task in genome.grouping[here]
        )
        joined = (self._joined(genome, *pair) for pair in combinations(groups, 2))
        for neighbour in chain(moved, joined):
            if neighbour.grouping in self._groupings:
                yield from _either_room(neighbour)

    def _exchanged_training(self, genome: Genome) -> Iterator[Genome]:
        """Let the two tasks that train change places, or GPUs, where such groups are searched."""
        trained = _trained(genome.grouping)
        for neighbour in (self._exchange(genome, *trained),) if len(trained) > 1 else ():
            if neighbour != genome and neighbour.grouping in self._groupings:
                yield neighbour

    @property
    def _exchange(self) -> Callable[[Genome, Task, Task], Genome]:
        return exchange_of(runnable_only=self._decoder.fitting.runnable_only)

    def _moved(self, genome: Genome, task: Task, here: int, there: int) -> Genome:
        """Move a task; GPUs of a group that has none left go with it."""
        if genome.grouping[here] == (task,):
            return self._joined(genome, here, there)
        groups = [list(group) for group in genome.grouping]
        groups[here].remove(task)
        groups[there].append(task)
        return self._arranged(genome, groups, [list(row) for row in genome.counts])

    def _joined(self, genome: Genome, here: int, there: int) -> Genome:
        groups = [list(group) for group in genome.grouping]
        rows = [list(row) for row in genome.counts]
        for row in rows:
            row[there] += row[here]
            del row[here]
        groups[there] += groups[here]
        del groups[here]
        return self._arranged(genome, groups, rows)

    def _arranged(
        self, genome: Genome, groups: Sequence[Sequence[Task]], rows: Sequence[Sequence[int]]
    ) -> Genome:
        return arranged(replace(genome, counts=tuple(map(tuple, rows))), groups)


def _trained(groups: Sequence[Sequence[Task]]) -> list[Task]:
    """Return the training tasks, in an order that is the same in every process."""
    return [task for tasks in groups for task in tasks if task in TRAINING_TASKS]


def arranged(genome: Genome, groups: Sequence[Sequence[Task]]) -> Genome:
    """Return a genome with these groups in place of its own, all in the order of tasks."""
    tasks = list(Task)
    ordered = [tuple(sorted(group, key=tasks.index)) for group in groups]
    ranks = sorted(range(len(groups)), key=lambda group: tasks.index(ordered[group][0]))
    return replace(
        genome,
        grouping=tuple(ordered[rank] for rank in ranks),
        counts=tuple(tuple(row[rank] for rank in ranks) for row in genome.counts),
    )


def exchange_of(*, runnable_only: bool) -> Callable[[Genome, Task, Task], Genome]:
    """Return the exchange of the tasks that train: in runnable plans, of their whole groups."""
    return exchanged_gpus if runnable_only else exchanged_tasks


def exchanged_tasks(genome: Genome, one: Task, other: Task) -> Genome:
    """Return a genome in which two tasks have each other's group, cut, parts and order."""
    other_of = {one: other, other: one}
    groups = [[other_of.get(task, task) for task in group] for group in genome.grouping]
    return arranged(_renamed(genome, other_of), groups)


def exchanged_gpus(genome: Genome, one: Task, other: Task) -> Genome:
    """Return a genome in which the groups of two tasks have each other's GPUs, cuts and order."""
    first, last = (
        next(number for number, group in enumerate(genome.grouping) if task in group)
        for task in (one, other)
    )
    counts = []
    for row in genome.counts:
        changed = list(row)
        changed[first], changed[last] = row[last], row[first]
        counts.append(tuple(changed))
    return replace(_renamed(genome, {one: other, other: one}), counts=tuple(counts))


def _renamed(genome: Genome, other_of: Mapping[Task, Task]) -> Genome:
    """Return a genome in which a task's choices apply to another task."""

    def named(task: Task) -> Task:
        return other_of.get(task, task)

    return replace(
        genome,
        cuts=tuple((named(task), cut) for task, cut in genome.cuts),
        uses=tuple(
            (named(task), machine, first, count) for task, machine, first, count in genome.uses
        ),
        orders=tuple((named(task), order) for task, order in genome.orders),
        shifts=tuple((named(task), give, take) for task, give, take in genome.shifts),
    )


def parts(count: int) -> Iterator[tuple[int, int]]:
    """Yield the runs of one to all but one of so many GPUs at either end, and none."""
    yield 0, 0
    for size in range(1, count):
        yield 0, size
        yield count - size, size


def exchanged(order: Sequence[int], first: int, last: int) -> tuple[int, ...]:
    """Return an order with two of its members exchanged."""
    changed = list(order)
    changed[first], changed[last] = changed[last], changed[first]
    return tuple(changed)


def _with_row(genome: Genome, machine: int, row: Sequence[int], idle: int = 1) -> Genome:
    counts = list(genome.counts)
    counts[machine] = tuple(row[: len(row) - idle])
    return replace(genome, counts=tuple(counts))


def _either_room(genome: Genome) -> Iterator[Genome]:
    """Yield a genome, and with each flag (room left, packed) inverted."""
    yield genome
    yield replace(genome, leaves_room=not genome.leaves_room)
    yield replace(genome, is_packed=not genome.is_packed)
