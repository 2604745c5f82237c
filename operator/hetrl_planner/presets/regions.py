"""Ten AWS regions and the measured network between each two of them.

From the published scheduler of DT-FM (Yuan et al., NeurIPS 2022), measured in 2022 between
virtual machines; its delays are round trips.
"""

from hetrl_core.fleet.snapshot import Link
from hetrl_core.units import GIGA

BITS_PER_BYTE = 8
MILLISECOND = 1e-3

EGRESS_DOLLARS_PER_GIB = 0.02
"""Ours: about what AWS lists for traffic between two of its regions in the US and Europe.
From Asia and Australia it asks up to five times as much."""

REGIONS = (
    "Oregon",
    "Virginia",
    "Ohio",
    "Tokyo",
    "Seoul",
    "Singapore",
    "Sydney",
    "London",
    "Frankfurt",
    "Ireland",
)

# Round trip in milliseconds and Gbit/s, from a region to those after it in REGIONS.
_ROWS: dict[str, tuple[tuple[float, float], ...]] = {
    "Oregon": (
        (67, 0.79),
        (49, 1.10),
        (96, 0.523),
        (124, 0.46),
        (163, 0.341),
        (139, 0.36),
        (136, 0.42),
        (143, 0.404),
        (124, 0.482),
    ),
    "Virginia": (
        (11, 1.12),
        (143, 0.524),
        (172, 0.5),
        (230, 0.364),
        (197, 0.383),
        (76, 1.16),
        (90, 1.02),
        (67, 1.05),
    ),
    "Ohio": (
        (130, 0.694),
        (159, 0.529),
        (197, 0.452),
        (185, 0.484),
        (86, 1.05),
        (99, 0.799),
        (77, 1.14),
    ),
    "Tokyo": (
        (34, 1.10),
        (73, 1.01),
        (100, 0.761),
        (210, 0.366),
        (223, 0.36),
        (199, 0.465),
    ),
    "Seoul": ((74, 1.14), (148, 0.58), (238, 0.342), (235, 0.358), (228, 0.335)),
    "Singapore": ((92, 0.816), (169, 0.5), (155, 0.535), (179, 0.492)),
    "Sydney": ((262, 0.326), (265, 0.328), (254, 0.344)),
    "London": ((14, 1.14), (12, 1.09)),
    "Frankfurt": ((24, 1.08),),
}

DELAY_MS_AND_GBPS: dict[frozenset[str], tuple[float, float]] = {
    frozenset((region, other)): figures
    for region, row in _ROWS.items()
    for other, figures in zip(REGIONS[REGIONS.index(region) + 1 :], row, strict=True)
}
"""Round-trip milliseconds and Gbit/s by pair of regions."""


def ten_regions(*, egress_dollars_per_gib: float = EGRESS_DOLLARS_PER_GIB) -> tuple[Link, ...]:
    """Return the links between all ten regions; half a round trip counts as one way."""
    return tuple(
        Link(
            source=one,
            target=other,
            bytes_per_second=gbps * GIGA / BITS_PER_BYTE,
            latency_seconds=milliseconds / 2 * MILLISECOND,
            egress_dollars_per_gib=egress_dollars_per_gib,
        )
        for number, one in enumerate(REGIONS)
        for other in REGIONS[number + 1 :]
        for milliseconds, gbps in (DELAY_MS_AND_GBPS[frozenset((one, other))],)
    )
