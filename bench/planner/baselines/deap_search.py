"""DEAP's genetic algorithm, as its tutorials set one up, on HetRL's encoding.

Sources: DEAP's documentation, ``algorithms.eaMuPlusLambda`` with two-point crossover, uniform
integer mutation and tournaments of three; a population of 100 as in HexGen, whose scheduler is
written with DEAP; mutation changes two genes of an individual on average. Scores are compared as
HetRL compares them, broken limits first.
"""

import random
from contextlib import suppress

import numpy as np
from deap import algorithms, base, tools

from bench.planner.baselines.anytime import Run, Spent
from bench.planner.baselines.encoding import Encoding, Genes
from hetrl_planner.hetrl.search.starts import Starts
from hetrl_planner.layout.evaluation import Evaluation

POPULATION = 100
CROSSOVER = 0.5
MUTATION = 0.4
GENES_CHANGED = 2
TOURNAMENT = 3
MAX_GENERATIONS = 1_000_000


class _Fitness(base.Fitness):  # type: ignore[misc]
    weights = (-1.0, -1.0, -1.0)


class _Individual(list[int]):
    def __init__(self, genes: Genes) -> None:
        super().__init__(genes)
        self.fitness = _Fitness()


def search(run: Run, rng: np.random.Generator) -> Evaluation | None:
    """Return the best layout found, ``None`` if none fits."""
    encoding = Encoding(run.decoder)
    starts = Starts(run.decoder.fitting, rng)
    # DEAP draws from Python's own generator, and from nowhere else.
    random.seed(int(rng.integers(2**32)))
    toolbox = base.Toolbox()
    toolbox.register("evaluate", lambda genes: run.score(encoding.genome(genes)))
    toolbox.register("mate", tools.cxTwoPoint)
    toolbox.register(
        "mutate",
        tools.mutUniformInt,
        low=0,
        up=encoding.upper,
        indpb=GENES_CHANGED / len(encoding.upper),
    )
    toolbox.register("select", tools.selTournament, tournsize=TOURNAMENT)
    population = [_Individual(encoding.first(starts, rng)) for _ in range(POPULATION)]
    with suppress(Spent):
        algorithms.eaMuPlusLambda(
            population,
            toolbox,
            mu=POPULATION,
            lambda_=POPULATION,
            cxpb=CROSSOVER,
            mutpb=MUTATION,
            ngen=MAX_GENERATIONS,
            verbose=False,
        )
    return run.best
