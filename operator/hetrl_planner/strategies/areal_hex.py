"""The strategy ArealHex: phase 1's choice, moved to better links by phase 2."""

from dataclasses import replace

from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.layout.layout import renumbered
from hetrl_planner.phase1.alternatives import choices
from hetrl_planner.phase1.space import Space
from hetrl_planner.phase1.to_layout import layout_of
from hetrl_planner.problem.goals import Cheapest, Fastest
from hetrl_planner.strategies.context import SearchContext
from hetrl_planner.strategies.evolution import evolve
from hetrl_planner.strategies.repartition import PHASE_2_SHARE, on_better_links
from hetrl_planner.strategies.search_result import SearchResult, better

CHEAPER_PARTS = (0.8, 0.9, 0.95, 0.98)
"""Shares of a plan's price at which a faster plan is searched. Ours."""


class ArealHex:
    """AReaL-Hex (arXiv 2511.00796): generation on other GPUs than everything else."""

    def plan(self, context: SearchContext) -> SearchResult | None:
        """Return the choice of both phases, on all GPUs or those of one kind."""
        first = phase_1(context, context.space)
        if first is None:
            return None
        others = choices(context.alternatives)
        first = better(first, _on_one_kind(context), context.objective)
        moved = evolve(context, [context.disjoint], first, others, share=PHASE_2_SHARE)
        found = on_better_links(context, cheaper(context, moved))
        return found and replace(found, alternatives=context.alternatives)


def phase_1(context: SearchContext, *spaces: Space) -> SearchResult | None:
    """Return the best choice of phase 1 among those of some parts of the context's space."""
    if not context.space.has_choices:
        return None
    results = []
    for space in spaces:
        found = context.searcher.best(space, context.goal)
        layout = found and layout_of(found.choice, context.evaluator.devices)
        evaluation = layout and context.evaluator.evaluate(layout)
        if found and isinstance(evaluation, Evaluation):
            results.append(
                SearchResult(
                    evaluation=evaluation,
                    is_complete=found.is_complete,
                    finalists=(evaluation,),
                )
            )
    score = context.objective.score
    return min(results, key=lambda each: score(each.evaluation), default=None)


def cheaper(context: SearchContext, found: SearchResult | None) -> SearchResult | None:
    """Return the fastest plan for less money, as long as that reaches the pace.

    Step times guide a search better than the fact that two plans are both too slow.
    """
    if found is None or not isinstance(context.goal, Cheapest):
        return found
    score = context.objective.score
    for part in CHEAPER_PARTS:
        while not context.should_stop():
            faster = _fastest_for(context, part * found.evaluation.dollars_per_hour)
            if faster is None or score(faster.evaluation) >= score(found.evaluation):
                break
            found = better(found, faster, context.objective)
            assert found
    return found


def _fastest_for(context: SearchContext, dollars_per_hour: float) -> SearchResult | None:
    limits = context.space.limits
    budget = min(dollars_per_hour, limits.budget_dollars_per_hour or dollars_per_hour)
    space = replace(context.space, limits=replace(limits, budget_dollars_per_hour=budget))
    return _both_phases(replace(context, goal=Fastest(), space=space))


def _both_phases(context: SearchContext) -> SearchResult | None:
    """Return the choice of both phases, evolved for a moment with generation apart."""
    initial = phase_1(context, context.space)
    moved = initial and evolve(context, [context.disjoint], initial, share=PHASE_2_SHARE)
    return on_better_links(context, moved)


def _on_one_kind(context: SearchContext) -> SearchResult | None:
    """Return the best result on GPUs of a single kind, if there are several kinds.

    With as many evaluations, evolution finds more on one kind than on a mixed fleet.
    """
    kinds = context.space.kinds
    best: SearchResult | None = None
    for kind in kinds if len(kinds) > 1 else ():
        alone = replace(context, space=context.space.only(kind=kind))
        found = cheaper(alone, _both_phases(alone))
        if found is None:
            continue
        layout = renumbered(
            found.evaluation.layout, alone.evaluator.devices, context.evaluator.devices
        )
        evaluation = context.evaluator.evaluate(layout)
        if isinstance(evaluation, Evaluation):
            here = SearchResult(evaluation=evaluation, is_complete=found.is_complete)
            best = better(best, here, context.objective)
    return best
