"""The fleet of HetRL's paper in four networks (arXiv 2512.12476): 24 A100, 24 L40S, 16 L4.

Published are the counts, and of the networks only what each function quotes. Which machine
is where, and every figure between the published ends, are ours. GPU figures and prices are
the catalogue's: the paper's table gives the A100 40 GB the memory bandwidth of the 80 GB part.
"""

from collections.abc import Mapping, Sequence

from hetrl_core.fleet.catalogue import CATALOGUE
from hetrl_core.fleet.snapshot import DEFAULT_WITHIN_REGION, ClusterSnapshot, Link, Machine
from hetrl_core.units import GIGA
from hetrl_planner.presets.regions import (
    BITS_PER_BYTE,
    EGRESS_DOLLARS_PER_GIB,
    MILLISECOND,
    ten_regions,
)

GPUS_PER_MACHINE = 8
FLEET = ("A100-40GB",) * 3 + ("L40S",) * 3 + ("L4",) * 2
"""GPU kinds of the eight machines."""

# Machines are dealt out so that no region has one kind alone and none has all.
_TWO_EACH = ("A100-40GB", "A100-40GB", "A100-40GB", "L40S", "L40S", "L4", "L40S", "L4")

Figures = tuple[float, float]
"""One-way milliseconds and Gbit/s."""


def single_region() -> ClusterSnapshot:
    """All machines in one region, as the paper says; 100 Gbit/s and 50 microseconds are ours."""
    return _snapshot(FLEET, ("Virginia",) * len(FLEET), {})


def multi_region_hybrid() -> ClusterSnapshot:
    """Two regions 10 ms and 5 Gbit/s apart, and an edge site that 1 Gbit/s reaches.

    Those figures are the paper's. Ours: the edge has the L4s and is 10 ms from both regions.
    """
    kinds = ("A100-40GB", "A100-40GB", "L40S", "A100-40GB", "L40S", "L40S", "L4", "L4")
    regions = ("east",) * 3 + ("west",) * 3 + ("edge",) * 2
    return _snapshot(
        kinds,
        regions,
        {("east", "west"): (10, 5), ("east", "edge"): (10, 1), ("west", "edge"): (10, 1)},
    )


def multi_country() -> ClusterSnapshot:
    """Four countries, 5 to 30 ms apart as the paper says; the pairs' figures are ours."""
    return _snapshot(
        _TWO_EACH,
        _twice("London", "Paris", "Frankfurt", "Stockholm"),
        {
            ("London", "Paris"): (5, 5),
            ("London", "Frankfurt"): (10, 4),
            ("London", "Stockholm"): (25, 2.5),
            ("Paris", "Frankfurt"): (8, 4.5),
            ("Paris", "Stockholm"): (30, 2),
            ("Frankfurt", "Stockholm"): (20, 3),
        },
    )


def multi_continent() -> ClusterSnapshot:
    """Four regions of three continents, 5 to 60 ms and 0.9 to 5 Gbit/s apart as the paper says.

    The pairs' figures are ours.
    """
    return _snapshot(
        _TWO_EACH,
        _twice("Virginia", "Ohio", "Ireland", "Tokyo"),
        {
            ("Virginia", "Ohio"): (5, 5),
            ("Virginia", "Ireland"): (35, 2),
            ("Virginia", "Tokyo"): (55, 1),
            ("Ohio", "Ireland"): (40, 1.8),
            ("Ohio", "Tokyo"): (50, 1.1),
            ("Ireland", "Tokyo"): (60, 0.9),
        },
    )


def ten_region_fleet() -> ClusterSnapshot:
    """The fleet over eight of the ten measured regions, a machine in each.

    Which machine is where is ours; links, all ten regions', are those of ``regions``.
    """
    kinds = ("A100-40GB", "L40S", "A100-40GB", "L4", "L40S", "A100-40GB", "L40S", "L4")
    places = ("Oregon", "Virginia", "Ohio", "Tokyo", "Seoul", "London", "Frankfurt", "Ireland")
    return _snapshot(kinds, places, {}, links=ten_regions())


def _twice(*regions: str) -> tuple[str, ...]:
    return tuple(region for region in regions for _ in range(2))


def _snapshot(
    kinds: Sequence[str],
    regions: Sequence[str],
    figures: Mapping[tuple[str, str], Figures],
    *,
    links: tuple[Link, ...] = (),
) -> ClusterSnapshot:
    return ClusterSnapshot(
        gpu_kinds=tuple(kind for kind in CATALOGUE if kind.name in kinds),
        machines=tuple(
            Machine(
                name=f"{region}-{kind}-{number}".lower(),
                gpu_kind=kind,
                num_gpus=GPUS_PER_MACHINE,
                region=region,
            )
            for number, (kind, region) in enumerate(zip(kinds, regions, strict=True))
        ),
        links=(
            *(_within(region) for region in sorted(set(regions))),
            *(_across(pair, figures[pair]) for pair in figures),
            *links,
        ),
    )


def _within(region: str) -> Link:
    return Link(
        source=region,
        target=region,
        bytes_per_second=DEFAULT_WITHIN_REGION.bytes_per_second,
        latency_seconds=DEFAULT_WITHIN_REGION.latency_seconds,
    )


def _across(pair: tuple[str, str], figures: Figures) -> Link:
    milliseconds, gbps = figures
    return Link(
        source=pair[0],
        target=pair[1],
        bytes_per_second=gbps * GIGA / BITS_PER_BYTE,
        latency_seconds=milliseconds * MILLISECOND,
        egress_dollars_per_gib=EGRESS_DOLLARS_PER_GIB,
    )
