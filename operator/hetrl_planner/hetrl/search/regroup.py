"""Starts of other groupings derived from a good plan and its GPUs.

The decoder cuts a group with fewer or more tasks again, and evolution moves GPUs from groups with
too many to groups with too few.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.hetrl.genome.decode import ROOM
from hetrl_planner.hetrl.genome.genome import Genome
from hetrl_planner.hetrl.genome.groupings import Grouping
from hetrl_planner.layout.devices import Devices

Rows = list[list[int]]


def parted(genome: Genome, grouping: Grouping, devices: Devices) -> Iterator[Genome]:
    """Yield genomes of another grouping.

    Each group has the GPUs of those whose most demanding task it does. Additional groups are on
    idle GPUs, or on some of the trainer's as well; training and generation also on all GPUs of one
    site, or on half of them.
    """
    heirs = [_inherited(group, genome.grouping) for group in grouping]
    added = [number for number, heir in enumerate(heirs) if not heir]
    if not added:
        counts = _inherited_counts(genome, heirs)
        yield replace(
            genome,
            grouping=grouping,
            counts=tuple(map(tuple, counts)),
            cuts=(),
            splits=(),
            uses=(),
            shifts=(),
        )
    elif len(added) == 1:
        yield from _with_one_more(genome, grouping, heirs, devices)
    else:
        *_, scores = sorted(added, key=lambda number: not _is_demanding(grouping[number]))
        *_, begun = (None, *parted(genome, _joined(grouping, scores), devices))
        if begun:
            yield from parted(begun, grouping, devices)


def _with_one_more(
    genome: Genome, grouping: Grouping, heirs: Sequence[Sequence[int]], devices: Devices
) -> Iterator[Genome]:
    takes, gives = heirs.index(()), _trainer(grouping)
    had = _inherited_counts(genome, heirs)
    rows = [list(row) for row in had]
    for row, size in zip(rows, devices.machine_sizes, strict=True):
        row[takes] = size - sum(row)
    ways = [rows, *_shared(rows, gives, takes, genome.order, devices)]
    if _is_demanding(grouping[takes]):
        ways += [*_by_site(rows, gives, takes, devices), _halved(had, gives, takes, genome.order)]
    for counts in dict.fromkeys(tuple(map(tuple, each)) for each in ways):
        if all(map(sum, zip(*counts, strict=True))):
            yield replace(
                genome, grouping=grouping, counts=counts, cuts=(), splits=(), uses=(), shifts=()
            )


def _inherited(group: Sequence[Task], groups: Grouping) -> tuple[int, ...]:
    """Return the numbers of the groups whose most demanding task is in another one."""
    return tuple(number for number, each in enumerate(groups) if min(each, key=ROOM.index) in group)


def _inherited_counts(genome: Genome, heirs: Sequence[Sequence[int]]) -> Rows:
    return [[sum(row[each] for each in heir) for heir in heirs] for row in genome.counts]


def _trainer(grouping: Grouping) -> int:
    return next(number for number, group in enumerate(grouping) if Task.ACTOR_TRAINING in group)


def _is_demanding(group: Sequence[Task]) -> bool:
    return bool({*TRAINING_TASKS, Task.ACTOR_GENERATION}.intersection(group))


def _joined(grouping: Grouping, number: int) -> Grouping:
    """Return a grouping in which the trainer does what one of the groups does."""
    trainer, order = _trainer(grouping), list(Task)
    together = sorted((*grouping[trainer], *grouping[number]), key=order.index)
    groups = [
        tuple(together) if each == trainer else group
        for each, group in enumerate(grouping)
        if each != number
    ]
    return tuple(sorted(groups, key=lambda group: order.index(group[0])))


def _shared(
    rows: Rows, gives: int, takes: int, order: Sequence[int], devices: Devices
) -> Iterator[Rows]:
    """Yield counts with half of a group's GPUs on its first machine of each site given away."""
    seen: set[int] = set()
    for machine in order:
        site = devices.machine_sites[machine]
        if site in seen or not rows[machine][gives]:
            continue
        seen.add(site)
        yield _given(rows, {machine: (rows[machine][gives] + 1) // 2}, gives, takes)


def _by_site(rows: Rows, gives: int, takes: int, devices: Devices) -> Iterator[Rows]:
    """Yield counts with all of a group's GPUs on one site given away."""
    for site in sorted(set(devices.machine_sites)):
        there = {
            machine: row[gives]
            for machine, row in enumerate(rows)
            if devices.machine_sites[machine] == site
        }
        yield _given(rows, there, gives, takes)


def _halved(rows: Rows, gives: int, takes: int, order: Sequence[int]) -> Rows:
    """Return counts with half of a group's GPUs given away, whole machines as far as possible."""
    left = sum(row[gives] for row in rows) // 2
    given = {}
    for machine in order:
        given[machine] = min(left, rows[machine][gives])
        left -= given[machine]
    return _given(rows, given, gives, takes)


def _given(rows: Rows, given: dict[int, int], gives: int, takes: int) -> Rows:
    changed = [list(row) for row in rows]
    for machine, count in given.items():
        changed[machine][gives] -= count
        changed[machine][takes] += count
    return changed
