"""The strategy ILP: whole machines divided among task groups."""

from hetrl_planner.ilp.find import find
from hetrl_planner.strategies.context import SearchContext
from hetrl_planner.strategies.search_result import SearchResult, better
from hetrl_planner.strategies.tiling import tiled

REGIONS_OF_A_START = 2
"""Regions of a group in initial results; evolution finds wider groups. Ours."""

CHOICES_OF_A_START = 3
"""Choices of each program that are priced whole for an initial result."""


class Ilp:
    """HetRL's integer linear program, or copies of its plan for one tile of a large fleet."""

    def plan(self, context: SearchContext) -> SearchResult | None:
        """Return the best choice of the program."""
        return better(tiled(self, context, None), divide_machines(context), context.objective)


def divide_machines(context: SearchContext, *, is_initial: bool = False) -> SearchResult | None:
    """Return the ILP's result, unless the fleet is planned by tiles."""
    if context.evaluations == 0 or context.is_large or context.should_stop():
        return None
    found = find(
        context.evaluator,
        context.objective,
        should_stop=context.should_stop,
        seed=context.seed,
        most_regions=REGIONS_OF_A_START if is_initial else None,
        most_choices=CHOICES_OF_A_START if is_initial else None,
        runnable_only=context.space.runnable_only,
    )
    if found is None:
        return None
    return SearchResult(
        evaluation=found.evaluation,
        is_complete=found.is_complete,
        finalists=found.finalists,
        others=found.genomes,
    )
