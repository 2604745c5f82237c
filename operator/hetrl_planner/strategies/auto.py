"""The strategy Auto: the searches of the others, one after the other.

It starts with the ILP, which divides whole machines, or phase 1 of AReaL-Hex, which counts single
GPUs, or both. HetRL's evolution refines their result, so there is a plan whenever time runs out. On
small fleets the ILP runs last instead. On larger fleets phase 1 is slower than the ILP and finds
less; it runs there only if the ILP finds nothing or the goal is a low price.
"""

from collections.abc import Sequence
from dataclasses import replace

from hetrl_planner.phase1.alternatives import choices
from hetrl_planner.phase1.choice import Choice
from hetrl_planner.problem.goals import Fastest
from hetrl_planner.strategies.areal_hex import cheaper, phase_1
from hetrl_planner.strategies.context import SearchContext
from hetrl_planner.strategies.evolution import evolve_all
from hetrl_planner.strategies.ilp import divide_machines
from hetrl_planner.strategies.playoff import play_off
from hetrl_planner.strategies.repartition import on_better_links
from hetrl_planner.strategies.search_result import SearchResult, better
from hetrl_planner.strategies.tiling import tiled

UNPROMISING_SHARE = 0.2
"""Share of evolution's evaluations if neither the ILP nor phase 1 found anything on more than a few
GPUs: enough to see that nothing fits. Ours."""


class Auto:
    """A first plan from the ILP or phase 1, refined by evolution, chosen in the simulator."""

    def plan(self, context: SearchContext) -> SearchResult | None:
        """Return the finalist that is fastest in the simulator, or the best prediction."""
        first = _first(context)
        others = choices(context.alternatives)
        refined = _refined(context, tiled(self, context, first), others)
        found = on_better_links(context, cheaper(context, refined))
        if found is None:
            return None
        return replace(play_off(found, context), alternatives=context.alternatives)


def _first(context: SearchContext) -> SearchResult | None:
    """Return a result within moments.

    In one region phase 2 costs a moment and is worth as much as a second of evolution.
    """
    divided = None if context.is_small else divide_machines(context, is_initial=True)
    if divided and isinstance(context.goal, Fastest) and _is_compared(context, divided):
        is_one_region = len({site.region for site in context.space.sites}) == 1
        return on_better_links(context, divided) if is_one_region else divided
    return better(phase_1(context, context.space), divided, context.objective)


def _is_compared(context: SearchContext, divided: SearchResult) -> bool:
    """Tell whether the ILP found a plan such as phase 1's, or no such plan can run."""
    if not context.space.runnable_only or not context.space.has_choices:
        return True
    return any(each.grouping == context.disjoint for each in divided.others)


def _refined(
    context: SearchContext, first: SearchResult | None, others: Sequence[Choice]
) -> SearchResult | None:
    if context.is_small:
        found = evolve_all(context, first, others)
        return better(found, divide_machines(context, is_initial=True), context.objective)
    share = 1.0 if first or not context.space.has_choices else UNPROMISING_SHARE
    return evolve_all(context, first, others, share=share)
