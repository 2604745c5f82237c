"""The entry point: the best partition that cuts, swaps and evolution find together.

Cuts come first, so there is a result after milliseconds. The cheapest of them and random
partitions are then evolved until the evaluations or ``should_stop`` end the search.
"""

from collections.abc import Callable

import numpy as np

from hetrl_planner.partition.cost import PartitionCost
from hetrl_planner.partition.graph import DeviceGraph
from hetrl_planner.partition.search.attraction import attractions
from hetrl_planner.partition.search.chains import Chains, Improved, swap_chains
from hetrl_planner.partition.search.cut import MAX_SEED, cuts
from hetrl_planner.partition.search.evolution import Breeding, MixedMoves, evolve
from hetrl_planner.partition.search.search import Best, Proposals, minimise, never
from hetrl_planner.partition.shape import Shape

BREEDING = Breeding(population_size=32, max_children=100_000, immigrant_share=0.1)
"""Ours. Limits other than the children's number should end the search first."""

REFINED_CUTS = 2
"""Cuts that chains of swaps improve before the evolution."""

BREEDING_CHAINS = Chains(max_length=1, max_swaps=16)
"""Short chains: there are many children, and only the good ones are worth more."""


def find_partition(
    graph: DeviceGraph,
    shape: Shape,
    cost: PartitionCost,
    rng: np.random.Generator,
    *,
    message_bytes: float,
    max_evaluations: int,
    should_stop: Callable[[], bool] = never,
) -> Best:
    """Return the cheapest partition found. Equal inputs give equal results, unless stopped.

    Args:
        graph: the devices; as many as the shape has places for.
        shape: the parts' sizes.
        cost: what to minimise.
        rng: every choice is drawn from it.
        message_bytes: about what one device sends another, so that cuts know what latency
            matters against bandwidth. It does not enter the cost.
        max_evaluations: the most evaluations of the cost.
        should_stop: polled after each evaluation.

    Raises:
        ValueError: the shape has not as many places as there are devices.
    """
    if shape.num_devices != len(graph):
        raise ValueError(f"part_sizes must take all {len(graph)} devices, got {shape.num_devices}")
    return minimise(
        propose(graph, shape, rng, message_bytes=message_bytes),
        cost,
        max_evaluations=max_evaluations,
        should_stop=should_stop,
    )


def propose(
    graph: DeviceGraph, shape: Shape, rng: np.random.Generator, *, message_bytes: float
) -> Proposals[Improved]:
    """Propose cuts, then partitions that evolve from them."""
    refined = yield from refine_cuts(graph, shape, rng, message_bytes=message_bytes)
    if shape.num_parts == 1:
        return refined[0]
    moves = MixedMoves(
        shape=shape,
        pulls=attractions(graph, message_bytes=message_bytes),
        class_of=graph.class_of,
        chains=BREEDING_CHAINS,
    )
    return (
        yield from evolve(
            shape,
            rng,
            local_search=moves,
            breeding=BREEDING,
            starts=refined[: BREEDING.population_size // 2],
        )
    )


def refine_cuts(
    graph: DeviceGraph, shape: Shape, rng: np.random.Generator, *, message_bytes: float
) -> Proposals[list[Improved]]:
    """Propose cuts and chains of swaps from the best; return the partitions, best first."""
    pulls = attractions(graph, message_bytes=message_bytes)
    seed = int(rng.integers(MAX_SEED))
    found: list[Improved] = []
    for labels in cuts(graph, shape, pulls, seed=seed):
        cost = yield labels
        found.append(Improved(labels, cost))
    found.sort(key=lambda each: each.cost)
    for number, start in enumerate(found[:REFINED_CUTS]):
        found[number] = yield from swap_chains(start.part_of, graph.class_of, rng, chains=Chains())
    return sorted(found, key=lambda each: each.cost)
