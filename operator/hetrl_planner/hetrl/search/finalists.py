"""Finalists: layouts of a search that may do better than predicted.

They are the best of each grouping, and the Pareto front of speed and room: if new weights come
sooner, or the training side is done sooner, less work arrives too late.
"""

from collections.abc import Callable

from hetrl_planner.hetrl.genome.groupings import Grouping
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.layout.objective import Score

ROOM: tuple[Callable[[Evaluation], float], ...] = (
    lambda found: found.weight_sync_seconds,
    lambda found: found.training_side_seconds,
)
"""Measures that leave more room if smaller."""


class Finalists:
    """The finalists of one search."""

    def __init__(self) -> None:
        self._by_grouping: dict[Grouping, tuple[Score, Evaluation]] = {}
        self._fronts = tuple(_Front(each) for each in ROOM)

    def add(self, grouping: Grouping, score: Score, found: Evaluation) -> None:
        """Add a layout if it is the best of its kind."""
        known = self._by_grouping.get(grouping)
        if known is None or score < known[0]:
            self._by_grouping[grouping] = (score, found)
        for front in self._fronts:
            front.add(score, found)

    def ranked(self) -> tuple[Evaluation, ...]:
        """Return those that keep the limits, the best score first."""
        kept = list(self._by_grouping.values())
        for front in self._fronts:
            kept += front.members
        found: list[Evaluation] = []
        for (excess, *_), each in sorted(kept, key=lambda each: each[0]):
            if not excess and each not in found:
                found.append(each)
        return tuple(found)


class _Front:
    """A Pareto front of layouts by score and one other measure."""

    def __init__(self, measure: Callable[[Evaluation], float]) -> None:
        self._measure = measure
        self.members: list[tuple[Score, Evaluation]] = []

    def add(self, score: Score, found: Evaluation) -> None:
        """Add a layout unless it is beaten; drop those that it beats."""
        measured = self._measure(found)
        if any(other <= score and self._measure(each) <= measured for other, each in self.members):
            return
        self.members = [
            (other, each)
            for other, each in self.members
            if other < score or self._measure(each) < measured
        ]
        self.members.append((score, found))
