"""The interface of strategies."""

from typing import Protocol

from hetrl_planner.strategies.context import SearchContext
from hetrl_planner.strategies.search_result import SearchResult


class SearchStrategy(Protocol):
    """A way to search for a plan."""

    def plan(self, context: SearchContext) -> SearchResult | None:
        """Return the best layout found within the limits, ``None`` if there is none."""
