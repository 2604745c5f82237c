"""The strategy Homogeneous: the best plan on GPUs of one kind."""

from dataclasses import replace

from hetrl_planner.strategies.areal_hex import phase_1
from hetrl_planner.strategies.context import SearchContext
from hetrl_planner.strategies.search_result import SearchResult


class Homogeneous:
    """Phase 1 of AReaL-Hex on each GPU kind alone."""

    def plan(self, context: SearchContext) -> SearchResult | None:
        """Return the best choice among those of all kinds."""
        parts = (context.space.only(kind=kind) for kind in context.space.kinds)
        found = phase_1(context, *parts)
        return found and replace(found, alternatives=context.alternatives)
