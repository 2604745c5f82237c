"""Runs of HetRL's evolution: their groupings, starts and numbers of evaluations.

``hetrl`` searches; ``auto`` decides when.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import numpy as np

from hetrl_planner.hetrl.genome.genome import Genome
from hetrl_planner.hetrl.genome.groupings import Grouping, disjoint, groupings
from hetrl_planner.hetrl.search.genome_of import genome_of
from hetrl_planner.hetrl.search.regroup import parted
from hetrl_planner.hetrl.search.search import search
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.objective import Objective
from hetrl_planner.phase1.choice import Choice
from hetrl_planner.phase1.iterate import Space
from hetrl_planner.phase1.to_layout import layout_of
from hetrl_planner.strategies.search_result import SearchResult, better

EVALUATIONS = 1100
"""Evaluations on a fleet of up to ``FULL_EFFORT_GPUS``. Ours."""

FULL_EFFORT_GPUS = 64
EVALUATIONS_PER_GPU = 60
"""On small fleets, for each grouping: there is no more to find."""

MOST_EVOLVED_GPUS = 2048
"""Larger fleets are left to phase 1 and to tiles, whose effort hardly grows with the machines."""

LEAST_EVALUATIONS = 60
"""Also on large fleets, where one costs much and the search starts from a tile's plan. Ours."""

SMALL_GPUS = 8
"""On fleets so small, whose groups are packed, evolution finds in tenths of a second what the ILP
takes longer for. On larger ones it refines another search's result. Ours."""

APART_SHARE = 0.2
"""Share of extra evaluations for plans that run with more groups than necessary, on all but small
fleets, given a plan with few groups to start from. Ours: with one budget for all, some plans
became slower."""


@dataclass(frozen=True, kw_only=True)
class EvolutionRunner:
    """Evolution for one job on one fleet."""

    space: Space
    evaluator: Evaluator
    objective: Objective
    seed: int
    should_stop: Callable[[], bool]
    evaluations: int | None
    """Budget; ``None``: by the size of the fleet."""

    @property
    def is_small(self) -> bool:
        """Whether evolution needs no other search's result on this fleet."""
        return self.evaluator.devices.num_gpus <= SMALL_GPUS

    @property
    def is_large(self) -> bool:
        """Whether the fleet is planned by tiles, with little evolution after them."""
        return self.evaluator.devices.num_gpus > FULL_EFFORT_GPUS

    @property
    def disjoint(self) -> Grouping:
        """All tasks that may be apart, apart."""
        return disjoint(self.space.work.tasks)

    def over_all(
        self, first: SearchResult | None, others: Sequence[Choice], *, share: float = 1.0
    ) -> SearchResult | None:
        """Evolve plans of every grouping.

        If plans must run, the promising groupings come first and get all evaluations: they win
        more often.
        """
        if not self.space.runnable_only:
            return self.over(self._groupings, first, others, share=share)
        few = self._promising(first)
        more = [each for each in self._groupings if each not in few]
        found = self.over(few, first, others, share=share)
        if not more:
            return found
        share *= APART_SHARE if found and not self.is_small else 1.0
        return self.over(more, self._parted(found, more), share=share)

    def over(
        self,
        arms: Sequence[Grouping],
        first: SearchResult | None,
        others: Sequence[Choice] = (),
        *,
        share: float = 1.0,
    ) -> SearchResult | None:
        """Return the better of a result and the one that evolution finds from it and others."""
        evaluations = int(share * self.effort(len(arms)))
        if not evaluations:
            return first
        if self.should_stop():
            return first and replace(first, is_complete=False)
        evolved = search(
            self.evaluator,
            self.objective,
            arms,
            evaluations=evaluations,
            rng=np.random.default_rng(self.seed),
            should_stop=self.should_stop,
            seeds=self._seeds(first, others),
            runnable_only=self.space.runnable_only,
        )
        if evolved is None:
            return first
        found = SearchResult(
            evaluation=evolved.evaluation,
            is_complete=evolved.is_complete,
            finalists=evolved.finalists,
        )
        return better(first, found, self.objective)

    def effort(self, num_arms: int) -> int:
        """Return the number of layouts that may be priced for so many groupings."""
        num_gpus = self.evaluator.devices.num_gpus
        if self.evaluations is not None:
            return self.evaluations
        if num_gpus > MOST_EVOLVED_GPUS:
            return 0
        if self.is_large:
            return LEAST_EVALUATIONS
        return max(LEAST_EVALUATIONS, min(EVALUATIONS_PER_GPU * num_gpus * num_arms, EVALUATIONS))

    def _promising(self, first: SearchResult | None) -> list[Grouping]:
        """Return the grouping of a result for which all groupings were compared.

        On small fleets, and without a result: all tasks together, and generation apart.
        """
        if first and not self.is_small:
            return [self._genome_of(first).grouping]
        return [each for each in self._groupings if len(each) == 1 or each == self.disjoint]

    def _parted(self, found: SearchResult | None, arms: Sequence[Grouping]) -> SearchResult | None:
        """Return a result with starts of other groupings derived from it."""
        if found is None:
            return None
        apart = (each for each in found.others if each.grouping == self.disjoint)
        begun = dict.fromkeys([self._genome_of(found), *islice(apart, 1)])
        devices = self.evaluator.devices
        starts = (each for genome in begun for arm in arms for each in parted(genome, arm, devices))
        return replace(found, others=(*found.others, *starts))

    def _seeds(self, first: SearchResult | None, others: Sequence[Choice]) -> tuple[Genome, ...]:
        devices = self.evaluator.devices
        layouts = (layout_of(choice, devices) for choice in others)
        genomes = (genome_of(layout, devices, tasks=self.space.work.tasks) for layout in layouts)
        known = [*first.others, self._genome_of(first)] if first else []
        seeds = dict.fromkeys([*known, *genomes])
        return tuple(each for each in seeds if each.grouping in self._groupings)

    def _genome_of(self, found: SearchResult) -> Genome:
        devices, tasks = self.evaluator.devices, self.space.work.tasks
        return genome_of(found.evaluation.layout, devices, tasks=tasks)

    @cached_property
    def _groupings(self) -> list[Grouping]:
        """Task groups that may share GPUs."""
        work = self.space.work
        return list(
            groupings(
                work.tasks,
                runnable_only=self.space.runnable_only,
                generation_apart=work.generation_apart,
            )
        )
