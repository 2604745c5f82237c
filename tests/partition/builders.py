"""Graphs for tests of partitions, and what they are held against."""

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from hetrl_planner.partition.graph import DeviceGraph, Labels


def a_graph(gbps: list[list[float]], *, milliseconds: float = 0.0) -> DeviceGraph:
    """A graph by the upper triangle of its bandwidths in Gbit/s."""
    values = np.triu(np.array(gbps, dtype=float), k=1)
    values = values + values.T + np.eye(len(gbps))
    return DeviceGraph(
        names=tuple(f"device-{number}" for number in range(len(gbps))),
        latency_seconds=np.full(values.shape, milliseconds / 1e3),
        bytes_per_second=values * 1e9 / 8,
        weights=np.ones(len(gbps)),
    )


def a_random_graph(seed: int, *, num_devices: int, levels: int = 4) -> DeviceGraph:
    """A graph with a few kinds of links, so that some devices are alike."""
    rng = np.random.default_rng(seed)
    latency = np.triu(rng.integers(0, 50, (num_devices, num_devices)) / 1e3, k=1)
    bandwidth = np.triu(rng.integers(1, levels + 1, (num_devices, num_devices)) * 1e8, k=1)
    return DeviceGraph(
        names=tuple(f"device-{number}" for number in range(num_devices)),
        latency_seconds=latency + latency.T,
        bytes_per_second=bandwidth + bandwidth.T,
        weights=np.ones(num_devices),
    )


def sites(*sizes: int, within: float = 10.0, across: float = 1.0) -> DeviceGraph:
    """Sites of so many devices, in Gbit/s."""
    site_of = np.repeat(np.arange(len(sizes)), sizes)
    gbps = np.where(site_of[:, None] == site_of, within, across)
    return a_graph(gbps.tolist())


def every_partition(num_devices: int, *, part_size: int) -> Iterator[Labels]:
    """Every way to cut devices into parts of one size, each once."""
    labels = np.zeros(num_devices, dtype=np.intp)

    def fill(left: tuple[int, ...], part: int) -> Iterator[Labels]:
        if not left:
            yield labels.copy()
            return
        for others in combinations(left[1:], part_size - 1):
            labels[[left[0], *others]] = part
            yield from fill(tuple(set(left) - {left[0], *others}), part + 1)

    yield from fill(tuple(range(num_devices)), 0)
