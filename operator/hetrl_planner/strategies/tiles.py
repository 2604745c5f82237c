"""Plans of large fleets from the plan of one tile."""

from dataclasses import replace

from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.strategies.context import SearchContext
from hetrl_planner.strategies.search_result import SearchResult
from hetrl_planner.strategies.strategy import SearchStrategy
from hetrl_planner.strategies.tiling import laid_out, tiling_of


def tiled(
    strategy: SearchStrategy, context: SearchContext, first: SearchResult | None
) -> SearchResult | None:
    """Return the better of a result and copies of a strategy's plan for one tile."""
    if not context.is_large or context.evaluations == 0 or context.should_stop():
        return first
    tiling = tiling_of(context.space)
    if tiling is None:
        return first
    found = strategy.plan(replace(context, space=tiling.tile, job=None))
    if found is None:
        return first
    layout = laid_out(found.evaluation.layout, tiling, context.space)
    evaluation = context.evaluator.evaluate(layout)
    if not isinstance(evaluation, Evaluation):
        return first
    if first is None:
        return replace(found, evaluation=evaluation, finalists=(), others=())
    score = context.objective.score
    is_better = score(evaluation) < score(first.evaluation)
    return replace(first, evaluation=evaluation) if is_better else first
