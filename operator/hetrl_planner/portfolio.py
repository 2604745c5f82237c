"""Which searches run for a strategy, in which order, and whose layout is taken.

``Auto`` asks phase 1 of AReaL-Hex first, for it ends in a moment with a good plan, and lets
HetRL's search go on from there; so there is an answer whenever time runs out.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hetrl_core.job import Strategy
from hetrl_core.task import Task
from hetrl_planner.hetrl.genome import Genome
from hetrl_planner.hetrl.genome_of import genome_of
from hetrl_planner.hetrl.groupings import Grouping, groupings
from hetrl_planner.hetrl.search import search
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.layout.of_choice import layout_of
from hetrl_planner.milp import Goal
from hetrl_planner.objective import Objective
from hetrl_planner.search import Found, Searcher, Space

EVALUATIONS = 2000
"""Of HetRL's search on a fleet of up to ``FULL_EFFORT_GPUS``. Ours."""

FULL_EFFORT_GPUS = 64
EVALUATIONS_PER_GPU = 60
"""On small fleets, for each grouping: there is no more to find."""

MOST_EVOLVED_GPUS = 2048
"""Larger fleets are left to phase 1, whose effort does not grow with the machines."""

LEAST_EVALUATIONS = 60
PHASE_2_SHARE = 0.1
"""Of these evaluations, for AReaL-Hex's phase 2: it moves what phase 1 chose, no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The layout that a strategy takes."""

    evaluation: Evaluation
    evaluator: Evaluator
    objective: Objective
    is_complete: bool
    """Whether work, not a stop from outside, ended the searches."""

    milp: Found | None = None
    """What phase 1 found, where it was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Portfolio:
    """The searches for one job on one fleet."""

    space: Space
    goal: Goal
    seed: int
    should_stop: Callable[[], bool]
    evaluations: int | None = None
    """Budget of HetRL's search; ``None``: by the size of the fleet."""

    def decide(self, strategy: Strategy) -> Decided | None:
        """Return what a strategy takes, ``None`` where it finds nothing within the limits."""
        devices = Devices(snapshot=self.space.snapshot, sites=self.space.sites)
        evaluator = Evaluator(self.space.work, devices)
        objective = Objective(goal=self.goal, limits=self.space.limits, devices=devices)
        match strategy:
            case Strategy.HOMOGENEOUS:
                return self._phase_1(evaluator, objective, homogeneous=True)
            case Strategy.AREAL_HEX:
                first = self._phase_1(evaluator, objective)
                return first and self._go_on(evaluator, objective, first, [self._disjoint])
            case Strategy.HETRL:
                return self._go_on(evaluator, objective, None, self._groupings)
            case _:
                first = self._phase_1(evaluator, objective)
                return self._go_on(evaluator, objective, first, self._groupings)

    def _phase_1(
        self, evaluator: Evaluator, objective: Objective, *, homogeneous: bool = False
    ) -> Decided | None:
        searcher = Searcher(should_stop=self.should_stop, seed=self.seed)
        spaces = [self.space]
        if homogeneous:
            kinds = sorted({site.kind.name for site in self.space.sites})
            spaces = [self.space.only(kind=kind) for kind in kinds]
        decided = []
        for found in (searcher.best(space, self.goal) for space in spaces):
            evaluation = found and evaluator.evaluate(layout_of(found.choice, evaluator.devices))
            if found and isinstance(evaluation, Evaluation):
                decided.append(
                    Decided(
                        evaluation=evaluation,
                        evaluator=evaluator,
                        objective=objective,
                        is_complete=found.is_complete,
                        milp=found,
                    )
                )
        return min(decided, key=lambda each: objective.score(each.evaluation), default=None)

    def _go_on(
        self,
        evaluator: Evaluator,
        objective: Objective,
        first: Decided | None,
        arms: list[Grouping],
    ) -> Decided | None:
        """Return the better of what is known and what evolution finds from there."""
        evaluations = self._effort(evaluator.devices, len(arms))
        if first is not None and len(arms) == 1:
            evaluations = int(evaluations * PHASE_2_SHARE)
        if not evaluations or self.should_stop():
            return first
        evolved = search(
            evaluator, objective, arms,
            evaluations=evaluations,
            rng=np.random.default_rng(self.seed),
            should_stop=self.should_stop,
            seeds=self._seeds(first, evaluator.devices),
        )  # fmt: skip
        if evolved is None:
            return first
        better = first is None or evolved.score < objective.score(first.evaluation)
        return Decided(
            evaluation=evolved.evaluation if better or first is None else first.evaluation,
            evaluator=evaluator,
            objective=objective,
            is_complete=evolved.is_complete and (first is None or first.is_complete),
            milp=first.milp if first else None,
        )

    def _seeds(self, first: Decided | None, devices: Devices) -> tuple[Genome, ...]:
        if first is None:
            return ()
        tasks = self.space.work.tasks
        return (genome_of(first.evaluation.layout, devices, tasks=tasks),)

    def _effort(self, devices: Devices, num_arms: int) -> int:
        if self.evaluations is not None:
            return self.evaluations
        if devices.num_gpus > MOST_EVOLVED_GPUS:
            return 0
        small = EVALUATIONS_PER_GPU * devices.num_gpus * num_arms
        large = EVALUATIONS * FULL_EFFORT_GPUS // max(FULL_EFFORT_GPUS, devices.num_gpus)
        return max(LEAST_EVALUATIONS, min(small, large))

    @property
    def _disjoint(self) -> Grouping:
        side = self.space.work.training_side
        return ((Task.ACTOR_GENERATION,), side)

    @property
    def _groupings(self) -> list[Grouping]:
        return list(groupings(self.space.work.tasks))
