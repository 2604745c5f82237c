"""The strategy HetRL: evolution alone, from genomes drawn at random."""

from hetrl_planner.strategies.context import SearchContext
from hetrl_planner.strategies.evolution import evolve_all
from hetrl_planner.strategies.search_result import SearchResult
from hetrl_planner.strategies.tiling import tiled


class Hetrl:
    """HetRL's multi-level search (arXiv 2512.12476)."""

    def plan(self, context: SearchContext) -> SearchResult | None:
        """Return the best layout of evolution over all groupings."""
        return evolve_all(context, tiled(self, context, None))
