"""Where a search for plans that score apart begins: at one whose trainer scores.

A trainer that scores no more is cut anew by the decoder, and who then has too many GPUs or too few
is for evolution to find.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hetrl_core.task import Task
from hetrl_planner.hetrl.decode import ROOM
from hetrl_planner.hetrl.genome import Genome
from hetrl_planner.hetrl.groupings import Grouping
from hetrl_planner.layout.devices import Devices

Rows = list[list[int]]


def parted(genome: Genome, grouping: Grouping, devices: Devices) -> Iterator[Genome]:
    """Yield genomes of a grouping with one group more: on idle GPUs, and on some of the trainer's.

    None where the grouping has not one group more.
    """
    heirs = [_inherited(group, genome.grouping) for group in grouping]
    if heirs.count(None) != 1:
        return
    added = heirs.index(None)
    rows = [[0 if heir is None else row[heir] for heir in heirs] for row in genome.counts]
    for row, size in zip(rows, devices.machine_sizes, strict=True):
        row[added] = size - sum(row)
    trains = next(number for number, group in enumerate(grouping) if Task.ACTOR_TRAINING in group)
    for counts in (rows, *_shared(rows, trains, added, genome.order, devices)):
        if all(map(sum, zip(*counts, strict=True))):
            yield replace(
                genome, grouping=grouping, counts=tuple(map(tuple, counts)),
                cuts=(), splits=(), uses=(), shifts=(),
            )  # fmt: skip


def _inherited(group: Sequence[Task], groups: Grouping) -> int | None:
    """Return the number of the group whose most demanding task is in another one."""
    for number, each in enumerate(groups):
        if min(each, key=ROOM.index) in group:
            return number
    return None


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
        changed = [list(row) for row in rows]
        half = (changed[machine][gives] + 1) // 2
        changed[machine][gives] -= half
        changed[machine][takes] += half
        yield changed
