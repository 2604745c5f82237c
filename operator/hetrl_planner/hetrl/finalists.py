"""Layouts of a search that may do better than is predicted, kept aside while it goes on.

Those are the best of each grouping, and those of which none is both faster and sooner to have new
weights: where rollouts wait long for weights, little is missing for their work to come too late.
"""

from hetrl_planner.hetrl.groupings import Grouping
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.objective import Score


class Finalists:
    """What one search keeps."""

    def __init__(self) -> None:
        self._by_grouping: dict[Grouping, tuple[Score, Evaluation]] = {}
        self._front: list[tuple[Score, Evaluation]] = []

    def add(self, grouping: Grouping, score: Score, found: Evaluation) -> None:
        """Take a layout in if it is the best of its kind."""
        known = self._by_grouping.get(grouping)
        if known is None or score < known[0]:
            self._by_grouping[grouping] = (score, found)
        if not any(_beats(each, score, found) for each in self._front):
            self._front = [
                (other, each)
                for other, each in self._front
                if not _beats((score, found), other, each)
            ]
            self._front.append((score, found))

    def ranked(self) -> tuple[Evaluation, ...]:
        """Return those that keep the limits, the best score first."""
        kept = sorted([*self._by_grouping.values(), *self._front], key=lambda each: each[0])
        found: list[Evaluation] = []
        for (excess, *_), each in kept:
            if not excess and each not in found:
                found.append(each)
        return tuple(found)


def _beats(mine: tuple[Score, Evaluation], score: Score, found: Evaluation) -> bool:
    return mine[0] <= score and mine[1].weight_sync_seconds <= found.weight_sync_seconds
