"""The common part of searches by evaluations: count, keep the best, and stop on request."""

from collections.abc import Callable
from dataclasses import dataclass, field

from hetrl_planner.hetrl.genome.decode import Decoder
from hetrl_planner.hetrl.genome.genome import Genome
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.layout.objective import Objective, Score

Watch = Callable[[int, Score], None]
"""A callback with each evaluation's number and the best score so far."""


def nothing(_count: int, _best: Score) -> None:
    """Watch nothing."""


class Spent(Exception):  # noqa: N818 - it ends a search, it is no error
    """An error: the budget is spent, or ``should_stop`` ended the search."""


@dataclass(slots=True, kw_only=True)
class Run:
    """One search's budget and best."""

    evaluator: Evaluator
    objective: Objective
    evaluations: int
    should_stop: Callable[[], bool]
    watch: Watch = nothing
    count: int = 0
    best: Evaluation | None = None
    best_score: Score | None = None
    decoder: Decoder = field(init=False)

    def __post_init__(self) -> None:
        self.decoder = Decoder(self.evaluator)

    def score(self, genome: Genome) -> Score:
        """Price a genome.

        Raises:
            Spent: no further evaluation is allowed.
        """
        if self.count >= self.evaluations or self.should_stop():
            raise Spent
        layout = self.decoder.decode(genome)
        found = self.evaluator.evaluate(layout) if layout else None
        score = self.objective.score(found)
        self.count += 1
        if self.best_score is None or score < self.best_score:
            self.best_score = score
            self.best = found if isinstance(found, Evaluation) and not score[0] else None
        self.watch(self.count, self.best_score)
        return score
