"""HetRL's genome as a list of whole numbers, which general genetic algorithms can cross.

One gene each for the grouping, for every GPU's owner, for every machine's place in the order in
which stages are laid, and for every cut and split. A GPU's owner is a task (it belongs to the
task's group) or none, so that crossing lists of other groupings keeps its meaning. A cut's
gene leaves it to the decoder in the lower half of its range.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.hetrl.genome.decode import Decoder
from hetrl_planner.hetrl.genome.genome import Cut, Genome
from hetrl_planner.hetrl.genome.groupings import Grouping, groupings
from hetrl_planner.hetrl.search.starts import Starts
from hetrl_planner.layout.devices import Devices

Genes = list[int]


@dataclass(frozen=True)
class Encoding:
    """Genes of one job on one fleet."""

    decoder: Decoder

    @property
    def _devices(self) -> Devices:
        return self.decoder.fitting.devices

    @cached_property
    def _tasks(self) -> tuple[Task, ...]:
        return self.decoder.fitting.work.tasks

    @cached_property
    def _groupings(self) -> tuple[Grouping, ...]:
        return tuple(groupings(self._tasks))

    @cached_property
    def _cuts(self) -> list[Cut]:
        return self.decoder.laying.cuts(self._devices.num_gpus)

    @cached_property
    def _trained(self) -> tuple[Task, ...]:
        return tuple(task for task in self._tasks if task in TRAINING_TASKS)

    @cached_property
    def _split(self) -> tuple[tuple[Task, int], ...]:
        return tuple(
            (task, site)
            for task in self._tasks
            if task not in TRAINING_TASKS
            for site in range(len(self._devices.sites))
        )

    @cached_property
    def upper(self) -> Genes:
        """The largest value of each gene; the smallest is 0."""
        machines = self._devices.num_machines
        return [
            len(self._groupings) - 1,
            *[len(self._tasks)] * self._devices.num_gpus,
            *[machines - 1] * machines,
            *[2 * len(self._cuts) - 1] * len(self._trained),
            *[2 * len(self._options(*each)) for each in self._split],
        ]

    def genome(self, genes: Genes) -> Genome:
        """Return the genome that genes stand for."""
        rest = iter(genes)
        grouping = self._groupings[next(rest)]
        owners = [next(rest) for _ in range(self._devices.num_gpus)]
        keys = [next(rest) for _ in range(self._devices.num_machines)]
        cuts = [(task, next(rest) - len(self._cuts)) for task in self._trained]
        splits = [(each, next(rest) - len(self._options(*each)) - 1) for each in self._split]
        return Genome(
            grouping=grouping,
            counts=tuple(
                tuple(
                    sum(self._tasks[owner] in group for owner in here if owner < len(self._tasks))
                    for group in grouping
                )
                for here in self._machines(owners)
            ),
            order=tuple(sorted(range(len(keys)), key=lambda machine: (keys[machine], machine))),
            cuts=tuple((task, self._cuts[number]) for task, number in cuts if number >= 0),
            splits=tuple(
                (*each, self._options(*each)[number]) for each, number in splits if number >= 0
            ),
        )

    def first(self, starts: Starts, rng: np.random.Generator) -> Genes:
        """Return genes of a random first genome, GPUs about in proportion to work."""
        number = int(rng.integers(len(self._groupings)))
        genome = starts.genome(self._groupings[number])
        owners = []
        for row, size in zip(genome.counts, self._devices.machine_sizes, strict=True):
            here = [
                self._tasks.index(group[0])
                for group, count in zip(genome.grouping, row, strict=True)
                for _ in range(count)
            ]
            owners += here + [len(self._tasks)] * (size - len(here))
        keys = [genome.order.index(machine) for machine in range(len(genome.order))]
        return [number, *owners, *keys, *[0] * (len(self._trained) + len(self._split))]

    def _options(self, task: Task, site: int) -> tuple[tuple[int, int], ...]:
        return tuple(self.decoder.fitting.splits(task, site, reserved_bytes=0))

    def _machines(self, owners: Genes) -> list[Genes]:
        firsts = self._devices.first_gpus
        return [
            owners[firsts[machine] : firsts[machine + 1]]
            for machine in range(self._devices.num_machines)
        ]
