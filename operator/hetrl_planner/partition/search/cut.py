"""Starts of searches: cuts of the device graph by METIS.

The cost decides which links a good partition keeps inside its parts: gradients need fast ones
there, a pipeline needs the fast ones between its stages. So there are cuts of both kinds and
between them, among these the two-level one of FlashFlex (first on the inverse of
bandwidth, its small parts then merged on bandwidth), on which AReaL-Hex's second phase builds.
"""

from collections.abc import Iterator

import numpy as np

from hetrl_planner.partition.graph import DeviceGraph, Labels, Matrix
from hetrl_planner.partition.search.attraction import Attractions
from hetrl_planner.partition.search.kernighan_lin import kernighan_lin
from hetrl_planner.partition.search.repair import to_sizes
from hetrl_planner.partition.shape import Shape

try:
    import pymetis

    HAS_METIS = True
except ImportError:  # No wheel for Linux on arm64: parts are grown instead of cut.
    HAS_METIS = False

MAX_EDGE_WEIGHT = 10_000
MAX_TOTAL_WEIGHT = 2**30
"""METIS counts in 32 bits."""

MAX_SEED = 2**31 - 1
IMBALANCE_PER_MILLE = 1
"""Deviation from the sizes that METIS may leave; ``to_sizes`` repairs it."""


def cuts(graph: DeviceGraph, shape: Shape, pulls: Attractions, *, seed: int) -> Iterator[Labels]:
    """Yield partitions of the shape, each good for some kind of cost."""
    for between in (pulls.fast, (pulls.fast + pulls.alike) / 2):
        for num_groups in range(1, shape.num_parts + 1):
            yield _nested(
                shape, num_groups, between=between, inside=pulls.apart, graph=graph, seed=seed
            )
    merged = _merged(pulls.apart, pulls.fast, shape, weights=graph.weights, seed=seed)
    if merged is not None:
        yield merged


def _nested(
    shape: Shape, num_groups: int, *, between: Matrix, inside: Matrix, graph: DeviceGraph, seed: int
) -> Labels:
    """Cut into groups of parts one way, and each group into its parts the other way."""
    parts_of = np.array_split(np.arange(shape.num_parts), num_groups)
    sizes = [tuple(shape.part_sizes[part] for part in parts) for parts in parts_of]
    groups = Shape(part_sizes=tuple(map(sum, sizes)))
    group_of = cut(between, groups, weights=graph.weights, seed=seed)
    part_of = np.empty_like(group_of)
    for group, parts in enumerate(parts_of):
        members = np.flatnonzero(group_of == group)
        within = cut(
            inside[np.ix_(members, members)],
            Shape(part_sizes=sizes[group]),
            weights=graph.weights[members],
            seed=seed,
        )
        part_of[members] = parts[within]
    return part_of


def cut(attraction: Matrix, shape: Shape, *, weights: Matrix, seed: int) -> Labels:
    """Return a partition that keeps strongly attracted devices together.

    Args:
        attraction: shape (devices, devices), from 0 to 1.
        shape: the parts; their sizes count devices, and are kept exactly.
        weights: METIS balances them before the sizes are repaired, shape (devices,).
        seed: of METIS's own choices.
    """
    if shape.num_parts == 1:
        return np.zeros(len(attraction), dtype=np.intp)
    rough = _metis(attraction, shape, weights, seed) if HAS_METIS else _grown(attraction, shape)
    return kernighan_lin(to_sizes(rough, shape, attraction=attraction), attraction)


def _merged(
    inside: Matrix, between: Matrix, shape: Shape, *, weights: Matrix, seed: int
) -> Labels | None:
    """Cut into half-size parts one way, and join these in pairs the other way."""
    if len(set(shape.part_sizes)) != 1 or shape.part_sizes[0] % 2:
        return None
    halves = Shape.even(num_parts=2 * shape.num_parts, part_size=shape.part_sizes[0] // 2)
    half_of = cut(inside, halves, weights=weights, seed=seed)
    member = np.eye(halves.num_parts)[half_of]
    pairs = Shape.even(num_parts=shape.num_parts, part_size=2)
    coarse = member.T @ between @ member
    joined = cut(coarse / coarse.max(), pairs, weights=member.T @ weights, seed=seed)
    return joined[half_of]


def _metis(attraction: Matrix, shape: Shape, weights: Matrix, seed: int) -> Labels:
    count = len(attraction)
    largest = max(1, min(MAX_EDGE_WEIGHT, MAX_TOTAL_WEIGHT // count**2))
    others = ~np.eye(count, dtype=bool)
    edges = np.maximum(1, np.rint(attraction * largest)).astype(np.int32)[others]
    relative = np.maximum(1, np.rint(weights / weights.max() * 1000)).astype(np.int32)
    _, labels = pymetis.part_graph(
        shape.num_parts,
        pymetis.CSRAdjacency(
            np.arange(count + 1, dtype=np.int32) * (count - 1),
            np.nonzero(others)[1].astype(np.int32),
        ),
        vweights=relative,
        eweights=edges,
        tpwgts=[size / shape.num_devices for size in shape.part_sizes],
        recursive=True,
        options=pymetis.Options(seed=seed, ufactor=IMBALANCE_PER_MILLE),
    )
    return np.asarray(labels, dtype=np.intp)


def _grown(attraction: Matrix, shape: Shape) -> Labels:
    """Grow one part after another, always by the device most attracted to it."""
    part_of = np.full(len(attraction), -1, dtype=np.intp)
    for part, size in enumerate(shape.part_sizes):
        free = np.flatnonzero(part_of < 0)
        # The device least attracted to others first, as long as other devices are left to join it.
        part_of[free[attraction[np.ix_(free, free)].sum(axis=1).argmin()]] = part
        for _ in range(size - 1):
            free = np.flatnonzero(part_of < 0)
            pull = attraction[np.ix_(free, np.flatnonzero(part_of == part))].sum(axis=1)
            part_of[free[pull.argmax()]] = part
    return part_of
