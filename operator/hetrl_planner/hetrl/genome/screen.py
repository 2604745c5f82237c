"""Screening of genomes before they are decoded: possible fits and duplicates.

A search evaluates few genomes, so each should decode to a layout, and to a new one. ``decode``
places the tasks; a genome that passes here may still fit nowhere.
"""

from dataclasses import replace
from itertools import chain

from hetrl_core.task import SCORING_TASKS, Task
from hetrl_planner.hetrl.genome.genome import Genome
from hetrl_planner.layout.fit.fitting import SplitFitter
from hetrl_planner.problem.fleet_size import MostGpus


class Screen:
    """Checks of genomes of one job on one fleet."""

    def __init__(self, fitting: SplitFitter) -> None:
        self._least_bytes = {task: fitting.least_bytes(task) for task in fitting.work.tasks}
        devices = fitting.devices
        self._usable_bytes = [devices.usable_bytes[site] for site in devices.machine_sites]
        self.packs = devices.num_gpus <= MostGpus.SMALL and not (
            fitting.runnable_only and len(fitting.work.training_side) > 1
        )
        """Whether the fleet's groups may be packed. The other tasks of a trainer's processes are
        cut as training is, which leaves nothing to pack."""

    def may_fit(self, genome: Genome) -> bool:
        """Tell whether the GPUs of each group together have room for its tasks' bytes."""
        room = [0] * len(genome.grouping)
        for usable_bytes, row in zip(self._usable_bytes, genome.counts, strict=True):
            for group, count in enumerate(row):
                room[group] += usable_bytes * count
        return all(
            sum([self._least_bytes[task] for task in tasks]) <= usable_bytes
            for tasks, usable_bytes in zip(genome.grouping, room, strict=True)
        )

    def plain(self, genome: Genome) -> Genome:
        """Return a genome without the choices that packing overrides, to compare genomes."""
        if not genome.is_packed:
            return genome
        if not self.packs:
            return replace(genome, is_packed=False)
        if max(map(sum, zip(*genome.counts, strict=True))) > MostGpus.PACKED_GROUP:
            return genome
        groups = _relabelled(genome)
        first = {group[0]: number for number, group in enumerate(groups)}
        ranks = [first[task] for task in Task if task in first]
        return Genome(
            grouping=tuple(groups[rank] for rank in ranks),
            counts=tuple(tuple(row[rank] for rank in ranks) for row in genome.counts),
            order=tuple(sorted(genome.order)),
            is_packed=True,
        )


def _relabelled(genome: Genome) -> list[tuple[Task, ...]]:
    """Return the groups with scoring tasks in a fixed order: they all cost the same."""
    columns = list(zip(*genome.counts, strict=True))
    others = [
        tuple(task for task in group if task not in SCORING_TASKS) for group in genome.grouping
    ]
    scoring = [
        len(group) - len(other) for group, other in zip(genome.grouping, others, strict=True)
    ]
    left = [task for task in Task if task in SCORING_TASKS.intersection(chain(*genome.grouping))]
    groups = list(others)
    for number in sorted(range(len(groups)), key=lambda each: (others[each], columns[each])):
        dealt, left = left[: scoring[number]], left[scoring[number] :]
        groups[number] = tuple(sorted((*others[number], *dealt), key=list(Task).index))
    return groups
