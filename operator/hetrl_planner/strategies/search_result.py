"""The result of searches: the chosen layout, its finalists and other starts."""

from dataclasses import dataclass

from hetrl_planner.hetrl.genome.genome import Genome
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.layout.objective import Objective
from hetrl_planner.phase1.alternatives import Alternative


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The layout that a strategy chooses."""

    evaluation: Evaluation
    is_complete: bool
    """Whether the searches ended by themselves, not by ``should_stop``."""

    finalists: tuple[Evaluation, ...] = ()
    """Layouts of each kind, the chosen one included, that may do better than predicted."""

    others: tuple[Genome, ...] = ()
    """Worse layouts from which evolution may reach better ones."""

    alternatives: tuple[Alternative, ...] = ()
    """The best choices with fewer kinds of GPUs, if they were compared."""


def better(
    first: SearchResult | None, second: SearchResult | None, objective: Objective
) -> SearchResult | None:
    """Return the better of two results, with the finalists of both; the first of equals."""
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
