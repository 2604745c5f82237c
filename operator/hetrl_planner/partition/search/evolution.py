"""An evolutionary search over partitions, after DT-FM's.

Two random parents, five-point crossover, repair to the parts' sizes, local search; the child
takes the worse parent's place when it is cheaper. The local search makes a large step by the
links alone (``cyclic``, ``regroup``), then swaps devices by the cost (``chains``).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hetrl_planner.partition.graph import Labels
from hetrl_planner.partition.search.attraction import Attractions
from hetrl_planner.partition.search.chains import Chains, Improved, swap_chains
from hetrl_planner.partition.search.cyclic import cyclic_partitioning
from hetrl_planner.partition.search.regroup import regrouped
from hetrl_planner.partition.search.repair import to_sizes
from hetrl_planner.partition.search.search import Proposals
from hetrl_planner.partition.shape import Shape

CROSSOVER_POINTS = 5
"""Devices whose part the child has from its first parent, as DT-FM's scheduler draws them."""

MIN_POPULATION = 2
CYCLIC_SHARE = 0.5
"""Share of children with DT-FM's large step; ours, as neither kind wins everywhere."""


class LocalSearch(Protocol):
    """A local search that improves a child before it competes."""

    def __call__(self, part_of: Labels, rng: np.random.Generator, /) -> Proposals[Improved]:
        """Propose, and return the best with its cost."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedMoves:
    """A large step by the links, then chains of swaps by the true cost."""

    shape: Shape
    pulls: Attractions
    class_of: Labels
    chains: Chains

    def __call__(self, part_of: Labels, rng: np.random.Generator, /) -> Proposals[Improved]:
        """Propose chains of swaps from where cyclic moves or a regrouping end."""
        if rng.random() < CYCLIC_SHARE:
            start = cyclic_partitioning(part_of, self.pulls.apart, num_parts=self.shape.num_parts)
        else:
            start = regrouped(part_of, self.shape, self.pulls, rng)
        return (yield from swap_chains(start, self.class_of, rng, chains=self.chains))


@dataclass(frozen=True, slots=True, kw_only=True)
class Breeding:
    """The size and growth of a population."""

    population_size: int
    max_children: int
    """The number of children after which the search ends."""

    immigrant_share: float = 0.0
    """Share of children that start from a random partition instead of two parents."""

    def __post_init__(self) -> None:
        if self.population_size < MIN_POPULATION:
            raise ValueError(
                f"population_size must be >= {MIN_POPULATION}, got {self.population_size}"
            )


def evolve(
    shape: Shape,
    rng: np.random.Generator,
    *,
    local_search: LocalSearch,
    breeding: Breeding,
    starts: Iterable[Improved] = (),
) -> Proposals[Improved]:
    """Propose children of a population until there were ``max_children``.

    Args:
        shape: the parts' sizes.
        rng: every choice is drawn from it.
        local_search: applied to each child.
        breeding: the population's size and growth.
        starts: the first members; random ones fill up the population.

    Returns:
        The cheapest member.
    """
    population = list(starts)[: breeding.population_size]
    while len(population) < breeding.population_size:
        labels = shape.shuffled(rng)
        population.append(Improved(labels, (yield labels)))
    for _ in range(breeding.max_children):
        one, other = rng.integers(len(population), size=2)
        if rng.random() < breeding.immigrant_share:
            born = shape.shuffled(rng)
        else:
            born = five_point_crossover(
                population[one].part_of, population[other].part_of, shape, rng
            )
        child = yield from local_search(born, rng)
        worse = max(one, other, key=lambda number: population[number].cost)
        if child.cost < population[worse].cost:
            population[worse] = child
    return min(population, key=lambda member: member.cost)


def five_point_crossover(
    one: Labels, other: Labels, shape: Shape, rng: np.random.Generator
) -> Labels:
    """Return the second parent with a few devices where the first has them, sizes repaired."""
    points = rng.choice(len(one), size=min(CROSSOVER_POINTS, len(one)), replace=False)
    child = other.copy()
    child[points] = one[points]
    return to_sizes(child, shape)
