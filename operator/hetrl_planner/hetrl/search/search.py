"""HetRL's search from end to end: genomes are proposed, decoded and priced; the best is kept."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hetrl_planner.hetrl.genome.decode import Decoder
from hetrl_planner.hetrl.genome.genome import Genome
from hetrl_planner.hetrl.genome.groupings import Grouping
from hetrl_planner.hetrl.search.evolution import Guide
from hetrl_planner.hetrl.search.finalists import Finalists
from hetrl_planner.hetrl.search.halving import SuccessiveHalving
from hetrl_planner.hetrl.search.starts import Starts
from hetrl_planner.hetrl.search.variation import Variation
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation, Misfit
from hetrl_planner.layout.objective import Objective, Score


@dataclass(frozen=True, slots=True, kw_only=True)
class EvolutionResult:
    """The best layout of a search."""

    evaluation: Evaluation
    score: Score
    finalists: tuple[Evaluation, ...]
    """Layouts that may do better than predicted, best first."""

    evaluations: int
    is_complete: bool
    """Whether the budget, not ``should_stop``, ended it."""


def search(
    evaluator: Evaluator,
    objective: Objective,
    groupings: Sequence[Grouping],
    *,
    evaluations: int,
    rng: np.random.Generator,
    should_stop: Callable[[], bool],
    seeds: tuple[Genome, ...] = (),
    runnable_only: bool = False,
    watch: Callable[[int, Score], None] | None = None,
) -> EvolutionResult | None:
    """Return the best layout found, ``None`` if none was within the limits.

    ``watch`` receives the number of each evaluation and the best score so far.
    """
    decoder = Decoder(evaluator, runnable_only=runnable_only)
    fitting = decoder.fitting
    asked = SuccessiveHalving(
        groupings=groupings,
        starts=Starts(fitting, rng),
        variation=Variation(decoder, rng),
        rng=rng,
        seeds=seeds,
    ).search(evaluations=evaluations)
    finalists = Finalists()
    best: Score | None = None
    count, is_complete = 0, True
    try:
        genome = next(asked)
        while True:
            layout = decoder.decode(genome)
            found = evaluator.evaluate(layout) if layout else None
            score = objective.score(found)
            count += 1
            if isinstance(found, Evaluation):
                finalists.add(genome.grouping, score, found)
                best = min(best or score, score)
            if watch and best:
                watch(count, best)
            if should_stop():
                is_complete = False
                break
            genome = asked.send(_guide(score, found))
    except StopIteration:
        pass
    ranked = finalists.ranked()
    if best is None or not ranked:
        return None
    return EvolutionResult(
        evaluation=ranked[0],
        score=best,
        finalists=ranked,
        evaluations=count,
        is_complete=is_complete,
    )


def _guide(score: Score, found: Evaluation | Misfit | None) -> Guide:
    excess, value, dollars = score
    busy = (
        sum(cost.seconds for cost in found.tasks.values()) if isinstance(found, Evaluation) else 0.0
    )
    return (excess, value, busy, dollars)
