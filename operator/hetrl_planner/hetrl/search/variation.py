"""Mutations of genomes: swaps across task groups, across places, and new cuts.

Level 3 swaps GPUs of two groups, level 5 the places of machines within a pipeline, level 4 draws a
new cut of a task; now and then level 2 moves GPUs from one group to another. ``evolution`` selects
the genomes to change.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from hetrl_core.task import TRAINING_TASKS
from hetrl_planner.hetrl.genome.decode import Decoder
from hetrl_planner.hetrl.genome.genome import Counts, Genome
from hetrl_planner.hetrl.search.neighbours import exchange_of, parts
from hetrl_planner.layout.devices import Devices

T = TypeVar("T")

MAX_SHIFTED_STAGES = 8
"""Stages between which layers are moved: of longer pipelines, the first."""

Rows = list[list[int]]
"""Counts that may change; the last column counts idle GPUs."""


class Variation:
    """Mutations for one job on one fleet."""

    def __init__(self, decoder: Decoder, rng: np.random.Generator) -> None:
        self.decoder = decoder
        self._devices: Devices = decoder.fitting.devices
        self._rng = rng

    @property
    def num_gpus(self) -> int:
        """GPUs of the fleet."""
        return self._devices.num_gpus

    @property
    def packs(self) -> bool:
        """Whether the groups of small fleets are packed here."""
        return self.decoder.screen.packs

    @property
    def _changes(self) -> tuple[tuple[Callable[[Genome], Genome], float], ...]:
        """The ways to change a genome, and how often each is taken."""
        # A stored list would refer back to its owner, and all remembered results of a search would
        # wait for the garbage collector, which takes half a second for them.
        trains_twice = len(TRAINING_TASKS.intersection(self.decoder.fitting.work.tasks)) > 1
        exchange = ((self._exchange_training, 0.05),) if trains_twice else ()
        return (
            *exchange,
            (self._swap_groups, 0.23),
            (self._move_gpus, 0.25),
            (self._swap_places, 0.12),
            (self._redraw_cut, 0.12),
            (self._redraw_use, 0.12),
            (self._redraw_split, 0.07),
            (self._shift_layer, 0.05),
            (self._redraw_room, 0.04),
        )

    def child(self, parent: Genome) -> Genome:
        """Return a changed copy: one change, or now and then two or three."""
        changes, weights = zip(*self._changes, strict=True)
        chances = np.array(weights) / sum(weights)
        child = parent
        for _ in range(int(self._rng.geometric(0.6))):
            number = int(self._rng.choice(len(changes), p=chances))
            child = changes[number](child)
        return self.decoder.screen.plain(child)

    def may_fit(self, genome: Genome) -> bool:
        """Tell whether a genome is worth decoding."""
        return self.decoder.screen.may_fit(genome)

    # Levels 2 and 3: who owns which GPUs

    def _swap_groups(self, genome: Genome) -> Genome:
        """Let two groups exchange GPUs of two machines; how many each has stays."""
        rows = self._rows(genome.counts)
        here, there = self._pick(range(len(rows))), self._pick(range(len(rows)))
        mine = self._pick([group for group, count in enumerate(rows[here]) if count])
        others = [group for group, count in enumerate(rows[there]) if count and group != mine]
        if here == there or not others:
            return genome
        theirs = self._pick(others)
        size = self._size(min(rows[here][mine], rows[there][theirs]))
        for row, gives, takes in ((rows[here], mine, theirs), (rows[there], theirs, mine)):
            row[gives] -= size
            row[takes] += size
        return self._with(genome, rows)

    def _move_gpus(self, genome: Genome) -> Genome:
        """Move GPUs to a group from another or from the idle ones; or leave them idle."""
        rows = self._rows(genome.counts)
        row = rows[self._pick(range(len(rows)))]
        gives = self._pick([group for group, count in enumerate(row) if count])
        takes = self._pick([group for group in range(len(row)) if group != gives])
        size = self._size(row[gives])
        row[gives] -= size
        row[takes] += size
        return self._with(genome, rows)

    def _exchange_training(self, genome: Genome) -> Genome:
        """Let the two tasks that train change places."""
        exchange = exchange_of(runnable_only=self.decoder.fitting.runnable_only)
        return exchange(genome, *sorted(TRAINING_TASKS))

    def _size(self, most: int) -> int:
        """Return the number of GPUs to move: all, one, or a power of two."""
        options = [most, 1, *(size for size in (2, 4) if size < most)]
        return self._pick(options)

    def _rows(self, counts: Counts) -> Rows:
        sizes = self._devices.machine_sizes
        return [[*row, size - sum(row)] for row, size in zip(counts, sizes, strict=True)]

    def _with(self, genome: Genome, rows: Rows) -> Genome:
        return replace(genome, counts=tuple(tuple(row[:-1]) for row in rows))

    # Level 5: places

    def _swap_places(self, genome: Genome) -> Genome:
        """Exchange two machines in the order of stages, or reverse a part of it."""
        trained = [task for tasks in genome.grouping for task in tasks if task in TRAINING_TASKS]
        own = dict(genome.orders)
        whose = self._pick([None, *trained])
        order = list(own.get(whose, genome.order) if whose else genome.order)
        if len(order) < 2:  # noqa: PLR2004 - a pair is two
            return genome
        first, last = sorted(self._rng.choice(len(order), size=2, replace=False).tolist())
        if self._rng.random() < 0.5:  # noqa: PLR2004 - a fair coin
            order[first], order[last] = order[last], order[first]
        else:
            order[first : last + 1] = reversed(order[first : last + 1])
        if whose is None:
            return replace(genome, order=tuple(order), orders=())
        return replace(genome, orders=tuple({**own, whose: tuple(order)}.items()))

    def _redraw_use(self, genome: Genome) -> Genome:
        """Let a task take another part of its group's GPUs on a machine, or all of them."""
        had = [
            (group, machine)
            for machine, row in enumerate(genome.counts)
            for group, count in enumerate(row)
            if count
        ]
        if not had:
            return genome
        group, machine = self._pick(had)
        task = self._pick(self.decoder.deciding(genome.grouping[group]))
        others = tuple(use for use in genome.uses if use[:2] != (task, machine))
        if len(others) < len(genome.uses) and self._rng.random() < 1 / 2:
            return replace(genome, uses=others)
        first, count = self._pick(list(parts(genome.counts[machine][group])))
        return replace(genome, uses=(*others, (task, machine, first, count)))

    # Level 4: cuts

    def _redraw_cut(self, genome: Genome) -> Genome:
        """Cut a training task in another way, or leave its cut to the decoder again."""
        trained = [
            (group, task)
            for group, tasks in enumerate(genome.grouping)
            for task in self.decoder.deciding(tasks)
            if task in TRAINING_TASKS
        ]
        group, task = self._pick(trained)
        others = tuple(pair for pair in genome.cuts if pair[0] is not task)
        gpus = sum(row[group] for row in genome.counts)
        cuts = self.decoder.cuts(task, genome.grouping[group], gpus)
        if not cuts or (len(others) < len(genome.cuts) and self._rng.random() < 1 / 3):
            return replace(genome, cuts=others)
        return replace(genome, cuts=(*others, (task, self._pick(cuts))))

    def _shift_layer(self, genome: Genome) -> Genome:
        """Move a layer of a training task to another stage, or all back to the balance."""
        if genome.shifts and self._rng.random() < 1 / 2:
            return replace(genome, shifts=())
        trained = [task for tasks in genome.grouping for task in tasks if task in TRAINING_TASKS]
        most = min(self.decoder.fitting.work.architecture.num_layers, self._devices.num_gpus)
        if most < 2:  # noqa: PLR2004 - a move needs two stages
            return genome
        give, take = self._rng.choice(min(MAX_SHIFTED_STAGES, most), size=2, replace=False)
        shift = (self._pick(trained), int(give), int(take))
        return replace(genome, shifts=(*genome.shifts, shift))

    def _redraw_room(self, genome: Genome) -> Genome:
        if self.packs and self._rng.random() < 1 / 2:
            return replace(genome, is_packed=not genome.is_packed)
        return replace(genome, leaves_room=not genome.leaves_room)

    def _redraw_split(self, genome: Genome) -> Genome:
        """Split the replicas of a task on one site in another way, or as the decoder would."""
        served = [
            (group, task)
            for group in genome.grouping
            for task in self.decoder.deciding(group)
            if task not in TRAINING_TASKS
        ]
        if not served:
            return genome
        group, task = self._pick(served)
        site = self._pick(range(len(self._devices.sites)))
        others = tuple(each for each in genome.splits if each[:2] != (task, site))
        splits = self.decoder.splits(task, group, site)
        if not splits or (len(others) < len(genome.splits) and self._rng.random() < 1 / 3):
            return replace(genome, splits=others)
        return replace(genome, splits=(*others, (task, site, self._pick(splits))))

    def _pick(self, options: Sequence[T]) -> T:
        return options[int(self._rng.integers(len(options)))]
