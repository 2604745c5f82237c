"""Descent to the nearest optimum: single changes of a good genome until none improves it.

All neighbours are tried in a random order, and the descent continues from the first better one.
"""

from collections.abc import Generator

import numpy as np

from hetrl_planner.hetrl.genome.genome import Genome
from hetrl_planner.hetrl.search.evolution import Guide
from hetrl_planner.hetrl.search.neighbours import Neighbours

Descent = Generator[Genome, Guide, int]


def descend(
    start: tuple[Guide, Genome],
    neighbours: Neighbours,
    rng: np.random.Generator,
    *,
    evaluations: int,
    seen: set[Genome],
) -> Descent:
    """Propose neighbours of ever better genomes up to a budget; return their number.

    ``seen`` are genomes that need no second evaluation.
    """
    best, genome = start
    spent, is_better = 0, True
    while is_better:
        is_better = False
        around = list(neighbours.of(genome))
        for number in rng.permutation(len(around)):
            neighbour = around[int(number)]
            if neighbour in seen:
                continue
            if spent >= evaluations:
                return spent
            seen.add(neighbour)
            spent += 1
            score = yield neighbour
            if score < best:
                best, genome, is_better = score, neighbour, True
                break
    return spent
