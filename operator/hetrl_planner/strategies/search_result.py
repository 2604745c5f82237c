"""What searches came to: the layout that is taken, and what they know besides."""

from dataclasses import dataclass

from hetrl_planner.hetrl.genome.genome import Genome
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.layout.objective import Objective


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The layout that a strategy takes."""

    evaluation: Evaluation
    is_complete: bool
    """Whether work, not a stop from outside, ended the searches."""

    finalists: tuple[Evaluation, ...] = ()
    """Answers of other kinds, the one taken among them, that may do better than is predicted."""

    others: tuple[Genome, ...] = ()
    """Worse answers, from which evolution may come to better ones."""


def better(
    first: SearchResult | None, second: SearchResult | None, objective: Objective
) -> SearchResult | None:
    """Return the better of two answers, with what is known from both; the first of equals."""
    if first is None or second is None:
        return first or second
    score = objective.score
    is_better = score(second.evaluation) < score(first.evaluation)
    return SearchResult(
        evaluation=second.evaluation if is_better else first.evaluation,
        is_complete=first.is_complete and second.is_complete,
        finalists=(*first.finalists, *second.finalists),
        others=(*first.others, *second.others),
    )
