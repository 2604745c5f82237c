"""Random search: a random grouping, random numbers of GPUs, and the best of many.

Genomes are drawn as HetRL's evolution draws its first ones, GPUs about in proportion to work;
cuts are the decoder's. What is left of HetRL's search without any search.
"""

import numpy as np

from bench.planner.baselines.anytime import Run, Spent
from hetrl_planner.hetrl.genome.groupings import groupings
from hetrl_planner.hetrl.search.starts import Starts
from hetrl_planner.layout.evaluation import Evaluation


def search(run: Run, rng: np.random.Generator) -> Evaluation | None:
    """Return the best layout drawn, ``None`` if none fits."""
    starts = Starts(run.decoder.fitting, rng)
    options = tuple(groupings(run.evaluator.work.tasks))
    try:
        while True:
            run.score(starts.genome(options[int(rng.integers(len(options)))]))
    except Spent:
        return run.best
