"""A large step for a partition: exchanges between groups of parts, and then inside them.

Between groups fast links and likeness attract, inside a group slow links do: so a pipeline
gets stretches of stages that are near each other. One group is a cut for pipelines alone, a
group for each part a cut for gradients alone; the cost decides which is best.
"""

import numpy as np

from hetrl_planner.partition.graph import Labels
from hetrl_planner.partition.search.attraction import Attractions
from hetrl_planner.partition.search.kernighan_lin import kernighan_lin
from hetrl_planner.partition.search.repair import to_sizes
from hetrl_planner.partition.shape import Shape


def regrouped(
    part_of: Labels, shape: Shape, pulls: Attractions, rng: np.random.Generator
) -> Labels:
    """Return the partition after exchanges between and inside groups drawn at random."""
    # Few groups more often: there are more ways to fill them.
    num_groups = 1 + int(shape.num_parts * rng.random() ** 2)
    groups = np.array_split(rng.permutation(shape.num_parts), num_groups)
    group_of_part = np.empty(shape.num_parts, dtype=np.intp)
    for number, parts in enumerate(groups):
        group_of_part[parts] = number
    likeness = rng.integers(3) / 2
    group_of = kernighan_lin(
        group_of_part[part_of], likeness * pulls.alike + (1 - likeness) * pulls.fast
    )
    moved = part_of.copy()
    for number, parts in enumerate(groups):
        members = np.flatnonzero(group_of == number)
        moved[members] = _inside(part_of[members], parts, members, shape, pulls)
    return moved


def _inside(
    part_of: Labels, parts: Labels, members: Labels, shape: Shape, pulls: Attractions
) -> Labels:
    """Return the parts of a group's members; new members take the places of those that left."""
    if len(parts) == 1:
        return np.full(len(members), parts[0], dtype=np.intp)
    sizes = Shape(part_sizes=tuple(shape.part_sizes[part] for part in parts))
    numbers = np.full(shape.num_parts, 0, dtype=np.intp)
    numbers[parts] = np.arange(len(parts))
    apart = pulls.apart[np.ix_(members, members)]
    found = kernighan_lin(to_sizes(numbers[part_of], sizes, attraction=apart), apart)
    return np.asarray(parts[found], dtype=np.intp)
