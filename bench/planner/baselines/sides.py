"""The two sides of a step, each cut uniformly in the best way, and which GPUs each gets.

Exhaustive without trying everything: a side's time does not depend on what the other does but
for weights on their way, so pairs of sides are tried in the order of the least time that they
can take, until the next cannot win. What systems without a planner do by hand, done to the end.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

from bench.planner.baselines.equal_shares import EqualShares
from bench.planner.baselines.pools import (
    STAGE_COUNTS,
    TENSOR_SIZES,
    Cut,
    Pool,
    pool,
    serving,
    training,
)
from hetrl_core.plan.plan import Recompute, Sharding, TrainingMode
from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.layout.layout import Layout, TaskLayout

FSDP = Cut(
    tensor=1,
    num_stages=1,
    mode=TrainingMode(recompute=Recompute.FULL, sharding=Sharding.FULL),
)
"""verl's default actor: fully sharded over all ranks, with gradient checkpointing."""

CUTS = tuple(
    Cut(
        tensor=tensor,
        num_stages=stages,
        mode=TrainingMode(recompute=recompute, sharding=sharding),
        replicas_first=replicas_first,
    )
    for tensor in TENSOR_SIZES
    for stages in STAGE_COUNTS
    for replicas_first in ((True, False) if stages > 1 else (True,))
    for recompute in (Recompute.NONE, Recompute.FULL)
    for sharding in (Sharding.OPTIMIZER, Sharding.FULL)
)
"""What tuning tries: Megatron's tp, pp and dp with its distributed optimizer, FSDP, and the two
together, which spares memory as offloading would; that is not priced."""


@dataclass(frozen=True, slots=True)
class Side:
    """Tasks that take turns on one pool, and their least time."""

    pool: Pool
    tasks: tuple[TaskLayout, ...]
    seconds: float


class Sides:
    """Best uniform cuts of one job on one fleet, remembered by pool."""

    def __init__(self, evaluator: EqualShares, *, cuts: Sequence[Cut] = CUTS) -> None:
        self._evaluator = evaluator
        self._work = evaluator.work
        self._cuts = cuts
        # Ways to train that differ only in mode come one after the other.
        self._shaped = lru_cache(maxsize=4)(
            lambda gpus, cut: training(Task.ACTOR_TRAINING, gpus, self._work, cut)
        )
        self._training: dict[Pool, Side | None] = {}
        self._generation: dict[Pool, Side | None] = {}

    # One side

    def training_options(self, gpus: Pool) -> list[Side]:
        """Return every way to do all but generation on a pool, fastest first; it may not fit."""
        scorings = [
            self._side(gpus, tasks)
            for tensor in TENSOR_SIZES
            if (tasks := self._scoring(gpus, tensor)) is not None
        ]
        found = []
        for cut in self._cuts:
            trained = self._trained(gpus, cut)
            if not trained:
                continue
            alone = self._side(gpus, trained)
            for scoring in scorings:
                tasks = (*trained, *scoring.tasks)
                # Only FSDP's workers score otherwise for how they train.
                seconds = (
                    self._evaluator.side_seconds(tasks)
                    if cut.is_fsdp
                    else alone.seconds + scoring.seconds
                )
                found.append(Side(gpus, tasks, seconds))
        return sorted(found, key=lambda side: side.seconds)

    def best_training(self, gpus: Pool) -> Side | None:
        """Return the fastest way that fits."""
        if gpus not in self._training:
            self._training[gpus] = next(
                (side for side in self.training_options(gpus) if self._evaluator.fits(side.tasks)),
                None,
            )
        return self._training[gpus]

    def best_generation(self, gpus: Pool) -> Side | None:
        """Return the fastest way to generate that fits."""
        if gpus not in self._generation:
            found = [
                Side(gpus, (task,), seconds)
                for task in self.generation_options(gpus)
                if (seconds := self._evaluator.generation_seconds(task)) is not None
            ]
            self._generation[gpus] = min(found, key=lambda side: side.seconds, default=None)
        return self._generation[gpus]

    def generation_options(self, gpus: Pool) -> list[TaskLayout]:
        """Return generation with every tensor size."""
        tried = (
            serving(Task.ACTOR_GENERATION, gpus, self._work, tensor=tensor)
            for tensor in TENSOR_SIZES
        )
        return [task for task in tried if task]

    def _side(self, gpus: Pool, tasks: tuple[TaskLayout, ...]) -> Side:
        return Side(gpus, tasks, self._evaluator.side_seconds(tasks))

    def _trained(self, gpus: Pool, cut: Cut) -> tuple[TaskLayout, ...]:
        """Return the training tasks, none where the pool is too small for the cut."""
        shaped = self._shaped(gpus, replace(cut, mode=FSDP.mode))
        if not shaped:
            return ()
        mode = cut.mode if len(shaped.replicas) > 1 else replace(cut.mode, sharding=Sharding.NONE)
        return tuple(
            replace(shaped, task=task, mode=mode)
            for task in self._work.tasks
            if task in TRAINING_TASKS
        )

    def _scoring(self, gpus: Pool, tensor: int) -> tuple[TaskLayout, ...] | None:
        """Return the scoring tasks, ``None`` if the size divides no machine or model."""
        shaped = serving(Task.REFERENCE_INFERENCE, gpus, self._work, tensor=tensor)
        if not shaped:
            return None
        return tuple(
            replace(shaped, task=task)
            for task in self._work.training_side
            if task not in TRAINING_TASKS
        )

    # Both sides

    def best_together(self, pools: Iterable[Pool]) -> Evaluation | None:
        """Return the best plan whose tasks all take turns on one of these pools."""
        promising = [
            (options[0].seconds + rollouts.seconds, options, rollouts.seconds)
            for gpus in dict.fromkeys(pools)
            if (rollouts := self.best_generation(gpus)) and (options := self.training_options(gpus))
        ]
        best: Evaluation | None = None
        for _, options, generation_seconds in sorted(promising, key=lambda each: each[0]):
            for side in options:
                if best and side.seconds + generation_seconds >= best.step_seconds:
                    break
                best = self._best_beside(side, best)
        return best

    def _best_beside(self, side: Side, best: Evaluation | None) -> Evaluation | None:
        if not self._evaluator.fits(side.tasks):
            return best
        for generation in self.generation_options(side.pool):
            found = self._evaluator.evaluate(Layout(((generation, *side.tasks),)))
            if isinstance(found, Evaluation):
                best = min(best or found, found, key=lambda each: each.step_seconds)
        return best

    def best_apart(self, pairs: Iterable[tuple[Pool, Pool]]) -> Evaluation | None:
        """Return the best plan that trains on the first of a pair and generates on the second."""
        sides = [
            (self._least_seconds(trainer, rollouts), trainer, rollouts)
            for training_pool, generation_pool in pairs
            if (trainer := self.best_training(training_pool))
            and (rollouts := self.best_generation(generation_pool))
        ]
        best: Evaluation | None = None
        for least_seconds, trainer, rollouts in sorted(sides, key=lambda each: each[0]):
            if best and least_seconds >= best.step_seconds:
                break
            found = self._evaluator.evaluate(Layout((rollouts.tasks, trainer.tasks)))
            if isinstance(found, Evaluation):
                best = min(best or found, found, key=lambda each: each.step_seconds)
        return best

    def _least_seconds(self, trainer: Side, rollouts: Side) -> float:
        if self._work.is_synchronous:
            return trainer.seconds + rollouts.seconds
        return max(trainer.seconds, rollouts.seconds)

    # Which GPUs

    def machine_sets(self, machines: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Yield sets of machines, those that differ only in the names of machines once."""
        for counts in product(*(range(len(each) + 1) for each in self._by_site(machines))):
            chosen = [
                machine
                for count, each in zip(counts, self._by_site(machines), strict=True)
                for machine in each[:count]
            ]
            if chosen:
                yield tuple(chosen)

    def pools(self, machines: Sequence[int]) -> Iterator[Pool]:
        """Yield a pool for each set of machines."""
        for chosen in self.machine_sets(machines):
            yield self._pool(chosen)

    def pairs(self, machines: Sequence[int]) -> Iterator[tuple[Pool, Pool]]:
        """Yield two disjoint pools: of whole machines, or of a part of each machine of a set."""
        here = self._by_site(machines)
        choices = [
            [(t, g) for t in range(len(each) + 1) for g in range(len(each) + 1 - t)]
            for each in here
        ]
        for counts in product(*choices):
            trains = [m for (t, _), each in zip(counts, here, strict=True) for m in each[:t]]
            others = [m for (t, g), each in zip(counts, here, strict=True) for m in each[t : t + g]]
            if trains and others:
                yield self._pool(trains), self._pool(others)
        for chosen in self.machine_sets(machines):
            yield from self._parts(self._pool(chosen))

    def _parts(self, whole: Pool) -> Iterator[tuple[Pool, Pool]]:
        size = min(count for _, _, count in whole.machines)
        for part in range(2, size, 2):
            yield (
                Pool(tuple((machine, first, part) for machine, first, _ in whole.machines)),
                Pool(
                    tuple(
                        (machine, first + part, count - part)
                        for machine, first, count in whole.machines
                    )
                ),
            )

    def _pool(self, machines: Sequence[int]) -> Pool:
        return pool(self._evaluator.devices, machines)

    def _by_site(self, machines: Sequence[int]) -> list[list[int]]:
        found: dict[int, list[int]] = {}
        for machine in machines:
            found.setdefault(self._evaluator.devices.machine_sites[machine], []).append(machine)
        return list(found.values())
