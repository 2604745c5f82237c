"""Levels 3 to 5: evolution of the genomes of one arm, proposed one at a time.

A generator: it yields a genome and is sent its score. The better of parent and child stays
(steady state), after DT-FM's evolutionary search by HetRL's first author (Yuan et al., 2022).
"""

from collections.abc import Generator
from dataclasses import dataclass, field

import numpy as np

from hetrl_planner.hetrl.genome.genome import Genome
from hetrl_planner.hetrl.search.variation import Variation

POPULATION = 12
"""Individuals of one arm. Ours; DT-FM keeps 100 with a local search each."""

MAX_REPEATS = 20
"""Retries of changes that lead to a known genome, or to one that cannot fit, before such a genome
is proposed."""

Guide = tuple[float, float, float, float]
"""A score with the seconds of all tasks together before what decides a tie: of two layouts with
one bottleneck, the one with more time left elsewhere is nearer to a better one."""

Asked = Generator[Genome, Guide, None]


@dataclass(slots=True)
class Population:
    """The individuals of an arm, best first."""

    members: list[tuple[Guide, Genome]] = field(default_factory=list)
    most: int = POPULATION
    most_alike: int = POPULATION
    """Most of one grouping, so that an early leader does not displace all others."""

    seen: set[Genome] = field(default_factory=set)

    @property
    def best(self) -> Guide:
        """The best score."""
        return self.members[0][0]

    def add(self, score: Guide, genome: Genome) -> None:
        """Add an individual; drop the worst beyond the limit of all or of its grouping."""
        self.members.append((score, genome))
        self.members.sort(key=lambda member: member[0])
        alike = [
            number
            for number, (_, each) in enumerate(self.members)
            if each.grouping == genome.grouping
        ]
        if len(alike) > self.most_alike:
            del self.members[alike[-1]]
        del self.members[self.most :]


def evolve(
    population: Population, variation: Variation, rng: np.random.Generator, *, evaluations: int
) -> Asked:
    """Propose so many children of a population."""
    for _ in range(evaluations):
        child = _unseen(population, variation, rng)
        score = yield child
        population.add(score, child)


def _unseen(population: Population, variation: Variation, rng: np.random.Generator) -> Genome:
    for _ in range(MAX_REPEATS):
        # The better of two: enough selection pressure, and diversity remains.
        rank = int(min(rng.integers(len(population.members), size=2)))
        child = variation.child(population.members[rank][1])
        if child not in population.seen and variation.may_fit(child):
            break
    population.seen.add(child)
    return child
