"""Columns: task groups on bundles of machines, each decoded alone and priced phase by phase.

Transfers between groups are left out; ``find`` prices each choice again as a whole layout. The
passes of a policy before its first gradient count as scoring if its critic, elsewhere, scores then.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import le

import numpy as np

from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.cost.compute import BYTES_PER_WEIGHT
from hetrl_planner.cost.network import transfer_seconds
from hetrl_planner.hetrl.genome.decode import Decoder
from hetrl_planner.hetrl.genome.genome import Genome
from hetrl_planner.ilp.bundles import Bundle, Supply, bundles, supplies
from hetrl_planner.ilp.kinds import (
    GENERATES,
    TRAINS_ACTOR,
    Kind,
    Kinds,
    scores,
    trains,
    trains_one,
    twin,
)
from hetrl_planner.ilp.route import Routes
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Misfit
from hetrl_planner.layout.layout import TaskLayout

GENERATION, SCORING, TRAINING = range(3)
PHASES = (GENERATION, SCORING, TRAINING)
"""A synchronous step is all three in turn; parted trainers keep step in the last two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One group that could be part of a layout."""

    kind: Kind
    bundle: Bundle
    regions: tuple[str, ...]
    phase_seconds: tuple[float, float, float]
    """Tasks of one group take turns, so those of a phase add up."""

    keeps_step: bool = False
    """Whether it trains one of two models, and another group the other."""

    proximal_seconds: float = 0.0
    """Seconds of the passes before the first gradient, if a policy is trained here."""

    dollars_per_hour: float
    num_gpus: int

    @property
    def busy_seconds(self) -> float:
        """The work of the group in a step."""
        return sum(self.phase_seconds)

    @property
    def scoring_apart_seconds(self) -> float:
        """Wait of a trajectory for scores here, if the trainer does not score."""
        if trains(self.kind) or not scores(self.kind):
            return 0.0
        return self.busy_seconds - self.phase_seconds[GENERATION]

    @property
    def generates(self) -> bool:
        """Whether rollouts are here."""
        return bool(self.kind[GENERATES])

    @property
    def trains_actor(self) -> bool:
        """Whether weights come from here."""
        return bool(self.kind[TRAINS_ACTOR])

    @property
    def fetches_weights(self) -> bool:
        """Whether it generates with weights that come from another group."""
        return self.generates and not self.trains_actor


NOTHING = True
"""Stands for a group without tasks, which fits everywhere."""


def unbeaten(columns: Sequence[Column]) -> list[Column]:
    """Return the columns that no other of their kind beats with a part of their machines."""
    by_kind: dict[Kind, list[Column]] = {}
    for column in columns:
        by_kind.setdefault(column.kind, []).append(column)
    return [column for alike in by_kind.values() for column in _unbeaten(alike)]


def _unbeaten(alike: Sequence[Column]) -> list[Column]:
    takes = np.array([(*each.bundle, *each.phase_seconds, each.num_gpus) for each in alike])
    kept = []
    for number, column in enumerate(alike):
        takes_no_more = (takes <= takes[number]).all(axis=1)
        takes_no_more[number] = False
        if not takes_no_more.any():
            kept.append(column)
    return kept


def phase_of(task: Task) -> int:
    """Return the phase of a step to which a task belongs."""
    if task is Task.ACTOR_GENERATION:
        return GENERATION
    return TRAINING if task in TRAINING_TASKS else SCORING


@dataclass(frozen=True, kw_only=True)
class ColumnPricer:
    """Prices the columns of one job on one fleet."""

    evaluator: Evaluator
    decoder: Decoder

    @cached_property
    def supplies(self) -> tuple[Supply, ...]:
        """The machines to divide."""
        return supplies(self.evaluator.devices)

    @cached_property
    def kinds(self) -> Kinds:
        """The kinds of groups that the job's tasks may make."""
        fitting = self.decoder.fitting
        return Kinds(
            fitting.work.tasks,
            runnable_only=fitting.runnable_only,
            generation_apart=fitting.work.generation_apart,
        )

    @cached_property
    def bundles(self) -> list[list[Bundle]]:
        """The bundles for a group, by the number of regions that they span."""
        return bundles(self.supplies, self.evaluator.devices)

    def columns(
        self,
        bundles: Sequence[Bundle],
        *,
        is_useful: Callable[[Column], bool],
        should_stop: Callable[[], bool],
    ) -> Iterator[Column]:
        """Yield every column that fits and is useful, until ``should_stop``.

        A group with more tasks on the same machines takes longer and needs more room, so it is
        skipped if a part of it is too much already.
        """
        for bundle in bundles:
            known: dict[Kind, Column | None] = {}
            too_slow: list[Kind] = []
            for kind in self.kinds.each:
                if should_stop():
                    return
                if any(all(map(le, part, kind)) for part in too_slow):
                    continue
                parts = (known.get(part, NOTHING) for part in self.kinds.parts(kind))
                column = self._column(kind, bundle, known) if all(parts) else None
                if column and not is_useful(column):
                    too_slow.append(kind)
                    column = None
                known[kind] = column
                if column:
                    yield column

    def genome(self, groups: Sequence[tuple[Kind, Bundle]]) -> Genome | None:
        """Return groups side by side; each takes machines that earlier ones left.

        ``None`` if such groups may not be together.
        """
        named = self.kinds.named([kind for kind, _ in groups])
        if named is None:
            return None
        rows = [[0] * len(groups) for _ in self.evaluator.devices.machine_sizes]
        for number, supply in enumerate(self.supplies):
            used = 0
            for group, (_, bundle) in enumerate(groups):
                for unit in range(used, used + bundle[number]):
                    machine = supply.machines[unit % len(supply.machines)]
                    rows[machine][group] += supply.gpus_per_unit
                used += bundle[number]
        return self._ordered(named, rows)

    def lag_seconds(self, sources: Sequence[str], target: str) -> float:
        """Return how long weights take into a region, were the trainer divided evenly."""
        work, devices = self.evaluator.work, self.evaluator.devices
        part_bytes = BYTES_PER_WEIGHT * work.architecture.num_parameters / len(sources)
        return max(
            transfer_seconds(part_bytes, devices.between(source, target))
            if source != target
            else 0.0
            for source in sources
        )

    def _ordered(self, named: Sequence[tuple[Task, ...]], rows: Sequence[Sequence[int]]) -> Genome:
        """Return a genome whose tasks and groups are in the iteration's order."""
        order = self.evaluator.work.tasks.index
        tasks = [tuple(sorted(group, key=order)) for group in named]
        ranks = sorted(range(len(tasks)), key=lambda group: order(tasks[group][0]))
        return Genome(
            grouping=tuple(tasks[rank] for rank in ranks),
            counts=tuple(tuple(row[rank] for rank in ranks) for row in rows),
            order=self._order(tasks, rows),
            is_packed=True,
        )

    def _order(
        self, groups: Sequence[tuple[Task, ...]], rows: Sequence[Sequence[int]]
    ) -> tuple[int, ...]:
        """Return every machine, those of a group that trains in the order of its pipelines."""
        trained = [
            number for number, tasks in enumerate(groups) if TRAINING_TASKS.intersection(tasks)
        ]
        routed = [
            machine
            for group in trained
            for machine in self._routes.through(
                machine for machine, row in enumerate(rows) if row[group]
            )
        ]
        return tuple(dict.fromkeys([*routed, *range(len(rows))]))

    @cached_property
    def _routes(self) -> Routes:
        return Routes(self.evaluator.work, self.evaluator.devices)

    def _column(
        self, kind: Kind, bundle: Bundle, known: Mapping[Kind, Column | None]
    ) -> Column | None:
        """Price a column; of two models that are trained, one alone is like the other."""
        if not kind[GENERATES] and (column := known.get(twin(kind))):
            return self._of_the_other(column, kind)
        return self._priced(kind, bundle)

    def _of_the_other(self, column: Column, kind: Kind) -> Column:
        """Return a column that trains the other model: only a policy has proximal passes."""
        generation, scoring, training = column.phase_seconds
        if kind[TRAINS_ACTOR] != column.kind[TRAINS_ACTOR]:
            scoring += column.proximal_seconds * (1 if kind[TRAINS_ACTOR] else -1)
        return replace(column, kind=kind, phase_seconds=(generation, scoring, training))

    def _proximal_seconds(self, group: Sequence[TaskLayout]) -> float:
        """Return the seconds before the first gradient, if the trained model is a policy."""
        (trained,) = (task for task in group if task.mode)
        return self.evaluator.proximal_seconds(replace(trained, task=Task.ACTOR_TRAINING))

    def _priced(self, kind: Kind, bundle: Bundle) -> Column | None:
        genome = self.genome([(kind, bundle)])
        layout = self.decoder.decode(genome) if genome else None
        if layout is None:
            return None
        (group,) = layout.groups
        seconds = self.evaluator.alone_seconds(group)
        if isinstance(seconds, Misfit):
            return None
        phases = [0.0 for _ in PHASES]
        for task in group:
            phases[phase_of(task.task)] += seconds[task.task]
        keeps_step = trains_one(kind, self.kinds.everything)
        proximal = self._proximal_seconds(group) if keeps_step else 0.0
        if kind[TRAINS_ACTOR]:
            phases[SCORING] += proximal
            phases[TRAINING] -= proximal
        devices = self.evaluator.devices
        machines = {devices.gpu_machines[gpu] for gpu in layout.gpus}
        return Column(
            kind=kind,
            bundle=bundle,
            regions=tuple(sorted({devices.region(machine) for machine in machines})),
            phase_seconds=(phases[0], phases[1], phases[2]),
            keeps_step=keeps_step,
            proximal_seconds=proximal,
            dollars_per_hour=self.evaluator.dollars_per_hour(layout),
            num_gpus=len(layout.gpus),
        )
