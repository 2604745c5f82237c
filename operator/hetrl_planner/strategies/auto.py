"""The searches of each strategy, their order, and the choice among their results.

``Auto`` starts with the ILP, which divides whole machines, or phase 1 of AReaL-Hex, which counts
single GPUs, or both. HetRL's evolution refines their result, so there is a plan whenever time runs
out. On small fleets the ILP runs last instead. On larger fleets phase 1 is slower than the ILP and
finds less; it runs there only if the ILP finds nothing or the goal is a low price.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hetrl_core.job.spec import Strategy
from hetrl_planner.ilp.find import find as find_partition
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.layout.layout import renumbered
from hetrl_planner.layout.objective import Objective
from hetrl_planner.phase1.choice import Choice
from hetrl_planner.phase1.iterate import Searcher, Space
from hetrl_planner.phase1.to_layout import layout_of
from hetrl_planner.problem.goals import Cheapest, Fastest, Goal
from hetrl_planner.strategies.evolution import EvolutionRunner
from hetrl_planner.strategies.repartition import repartition
from hetrl_planner.strategies.search_result import SearchResult, better
from hetrl_planner.strategies.tiling import laid_out, tiling_of

REGIONS_OF_A_START = 2
"""Regions of a group in ``Auto``'s initial results; evolution finds wider groups. Ours."""

CHOICES_OF_A_START = 3
"""Choices of each program that are priced whole for an initial result."""

PHASE_2_SHARE = 0.1
"""Share of evolution's evaluations for AReaL-Hex's phase 2, which only moves phase 1's choice."""

UNPROMISING_SHARE = 0.2
"""Share of evolution's evaluations if neither the ILP nor phase 1 found anything on more than a few
GPUs: enough to see that nothing fits. Ours."""

CHEAPER_PARTS = (0.8, 0.9, 0.95, 0.98)
"""Shares of a plan's price at which a faster plan is searched. Ours."""


@dataclass(frozen=True, kw_only=True)
class Portfolio:
    """The searches for one job on one fleet."""

    space: Space
    goal: Goal
    seed: int
    should_stop: Callable[[], bool]
    evaluations: int | None = None
    """Budget of HetRL's search; ``None``: by the size of the fleet."""

    @cached_property
    def evaluator(self) -> Evaluator:
        """The cost model on the space's devices."""
        devices = Devices(snapshot=self.space.snapshot, sites=self.space.sites)
        return Evaluator(self.space.work, devices)

    @cached_property
    def objective(self) -> Objective:
        """The goal and limits by which layouts are compared."""
        return Objective(goal=self.goal, limits=self.space.limits, devices=self.evaluator.devices)

    @cached_property
    def evolution(self) -> EvolutionRunner:
        """The evolution with this portfolio's budget."""
        return EvolutionRunner(
            space=self.space,
            evaluator=self.evaluator,
            objective=self.objective,
            seed=self.seed,
            should_stop=self.should_stop,
            evaluations=self.evaluations,
        )

    def initial(self, strategy: Strategy) -> SearchResult | None:
        """Return the result that a strategy finds within moments."""
        match strategy:
            case Strategy.HETRL | Strategy.ILP:
                return None
            case Strategy.AUTO:
                return self._auto_initial()
            case _:
                return self._phase_1(homogeneous=strategy is Strategy.HOMOGENEOUS)

    def refine(
        self, strategy: Strategy, first: SearchResult | None, *, others: Sequence[Choice] = ()
    ) -> SearchResult | None:
        """Return the better of an initial result and the one that evolution finds from it.

        ``others`` are worse choices of phase 1 from which evolution may reach better ones.
        """
        if strategy in {Strategy.HETRL, Strategy.ILP, Strategy.AUTO}:
            first = self._tiled(strategy, first)
        match strategy:
            case Strategy.HOMOGENEOUS:
                return first
            case Strategy.AREAL_HEX:
                if first is None:
                    return None
                first = better(first, self._on_one_kind(), self.objective)
                moved = self.evolution.over(
                    [self.evolution.disjoint], first, others, share=PHASE_2_SHARE
                )
                return self._repartition(self.cheaper(moved))
            case Strategy.HETRL:
                return self.evolution.over_all(first, others)
            case Strategy.ILP:
                return better(first, self._partition(), self.objective)
            case Strategy.AUTO:
                return self._repartition(self.cheaper(self._by_all(first, others)))

    def _auto_initial(self) -> SearchResult | None:
        """Return the result that ``Auto`` refines.

        In one region phase 2 costs a moment and is worth as much as a second of evolution.
        """
        divided = None if self.evolution.is_small else self._partition(is_initial=True)
        if divided and isinstance(self.goal, Fastest) and self._is_compared(divided):
            is_one_region = len({site.region for site in self.space.sites}) == 1
            return self._repartition(divided) if is_one_region else divided
        return better(self._phase_1(homogeneous=False), divided, self.objective)

    def _is_compared(self, divided: SearchResult) -> bool:
        """Tell whether the ILP found a plan such as phase 1's, or no such plan can run."""
        if not self.space.runnable_only or not self.space.has_choices:
            return True
        return any(each.grouping == self.evolution.disjoint for each in divided.others)

    def _by_all(self, first: SearchResult | None, others: Sequence[Choice]) -> SearchResult | None:
        if not self.evolution.is_small:
            share = 1.0 if first or not self.space.has_choices else UNPROMISING_SHARE
            return self.evolution.over_all(first, others, share=share)
        found = self.evolution.over_all(first, others)
        return better(found, self._partition(is_initial=True), self.objective)

    def _partition(self, *, is_initial: bool = False) -> SearchResult | None:
        """Return the ILP's result, unless the fleet is planned by tiles."""
        if self.evaluations == 0 or self.evolution.is_large or self.should_stop():
            return None
        found = find_partition(
            self.evaluator,
            self.objective,
            should_stop=self.should_stop,
            seed=self.seed,
            most_regions=REGIONS_OF_A_START if is_initial else None,
            most_choices=CHOICES_OF_A_START if is_initial else None,
            runnable_only=self.space.runnable_only,
        )
        if found is None:
            return None
        return SearchResult(
            evaluation=found.evaluation,
            is_complete=found.is_complete,
            finalists=found.finalists,
            others=found.genomes,
        )

    def _tiled(self, strategy: Strategy, first: SearchResult | None) -> SearchResult | None:
        """Return the better of a result and copies of the best plan for one tile."""
        if not self.evolution.is_large or self.evaluations == 0 or self.should_stop():
            return first
        tiling = tiling_of(self.space)
        if tiling is None:
            return first
        alone = replace(self, space=tiling.tile)
        found = alone.refine(strategy, alone.initial(strategy))
        if found is None:
            return first
        layout = laid_out(found.evaluation.layout, tiling, self.space)
        evaluation = self.evaluator.evaluate(layout)
        if not isinstance(evaluation, Evaluation):
            return first
        if first is None:
            return replace(found, evaluation=evaluation, finalists=(), others=())
        score = self.objective.score
        is_better = score(evaluation) < score(first.evaluation)
        return replace(first, evaluation=evaluation) if is_better else first

    def _repartition(self, found: SearchResult | None) -> SearchResult | None:
        if found is None or self.should_stop():
            return found
        evaluations = int(PHASE_2_SHARE * self.evolution.effort(1))
        moved = repartition(
            found.evaluation,
            self.evaluator,
            self.objective,
            evaluations=evaluations,
            rng=np.random.default_rng(self.seed),
            should_stop=self.should_stop,
            runnable_only=self.space.runnable_only,
        )
        return replace(found, evaluation=moved, finalists=(moved, *found.finalists))

    def _phase_1(self, *, homogeneous: bool) -> SearchResult | None:
        if not self.space.has_choices:
            return None
        searcher = Searcher(should_stop=self.should_stop, seed=self.seed)
        spaces = [self.space]
        if homogeneous:
            kinds = sorted({site.kind.name for site in self.space.sites})
            spaces = [self.space.only(kind=kind) for kind in kinds]
        results = []
        for found in (searcher.best(space, self.goal) for space in spaces):
            layout = found and layout_of(found.choice, self.evaluator.devices)
            evaluation = layout and self.evaluator.evaluate(layout)
            if found and isinstance(evaluation, Evaluation):
                results.append(
                    SearchResult(
                        evaluation=evaluation,
                        is_complete=found.is_complete,
                        finalists=(evaluation,),
                    )
                )
        return min(results, key=lambda each: self.objective.score(each.evaluation), default=None)

    def quick_plan(self) -> SearchResult | None:
        """Return the choice of both phases, evolved for a moment with generation apart."""
        initial = self._phase_1(homogeneous=False)
        moved = initial and self.evolution.over(
            [self.evolution.disjoint], initial, share=PHASE_2_SHARE
        )
        return self._repartition(moved)

    def _on_one_kind(self) -> SearchResult | None:
        """Return the best result on GPUs of a single kind, if there are several kinds.

        With as many evaluations, evolution finds more on one kind than on a mixed fleet.
        """
        kinds = sorted({site.kind.name for site in self.space.sites})
        best: SearchResult | None = None
        for kind in kinds if len(kinds) > 1 else ():
            alone = replace(self, space=self.space.only(kind=kind))
            found = alone.cheaper(alone.quick_plan())
            if found is None:
                continue
            layout = renumbered(
                found.evaluation.layout, alone.evaluator.devices, self.evaluator.devices
            )
            evaluation = self.evaluator.evaluate(layout)
            if isinstance(evaluation, Evaluation):
                here = SearchResult(evaluation=evaluation, is_complete=found.is_complete)
                best = better(best, here, self.objective)
        return best

    def cheaper(self, found: SearchResult | None) -> SearchResult | None:
        """Return the fastest plan for less money, as long as that reaches the pace.

        Step times guide a search better than the fact that two plans are both too slow.
        """
        if found is None or not isinstance(self.goal, Cheapest):
            return found
        for part in CHEAPER_PARTS:
            while not self.should_stop():
                faster = self._fastest_for(part * found.evaluation.dollars_per_hour)
                if faster is None or self._is_no_better(faster, found):
                    break
                found = better(found, faster, self.objective)
                assert found
        return found

    def _fastest_for(self, dollars_per_hour: float) -> SearchResult | None:
        budget = self.space.limits.budget_dollars_per_hour
        limits = replace(
            self.space.limits,
            budget_dollars_per_hour=min(dollars_per_hour, budget or dollars_per_hour),
        )
        return replace(self, goal=Fastest(), space=replace(self.space, limits=limits)).quick_plan()

    def _is_no_better(self, second: SearchResult, first: SearchResult) -> bool:
        score = self.objective.score
        return score(second.evaluation) >= score(first.evaluation)
