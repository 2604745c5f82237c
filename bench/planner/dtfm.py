"""The five networks of 64 GPUs that DT-FM was tried on, and its local search.

The figures are those of the authors' published scheduler (Yuan et al., NeurIPS 2022). Where its
files disagree, its solver's apply: 5 ms inside a region (the generator of its matrices has 10 ms).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from hetrl_core.units import GIGA
from hetrl_planner.partition.graph import DeviceGraph, Labels, Matrix
from hetrl_planner.partition.search.chains import Improved
from hetrl_planner.partition.search.cyclic import cyclic_partitioning
from hetrl_planner.partition.search.search import Proposals
from hetrl_planner.partition.shape import Shape
from hetrl_planner.presets.regions import BITS_PER_BYTE, DELAY_MS_AND_GBPS, MILLISECOND

NUM_GPUS = 64
SHAPE = Shape.even(num_parts=8, part_size=8)
"""Eight stages of eight data-parallel members."""

GRADIENT_BYTES = 0.65 * GIGA
ACTIVATION_BYTES = 0.471249 * GIGA
"""As published; the activation is a batch of 2024 where 2048 was probably meant."""

Figures = tuple[float, float]
"""Milliseconds and Gbit/s."""

WITHIN_REGION: Figures = (5, 2)

# Only the case of four US regions has California, and another Virginia-Oregon.
_US: dict[frozenset[str], Figures] = {
    frozenset(("Virginia", "Oregon")): (67, 1.15),
    frozenset(("Virginia", "California")): (59, 1.05),
    frozenset(("Virginia", "Ohio")): (11, 1.12),
    frozenset(("Oregon", "California")): (12, 1.25),
    frozenset(("Oregon", "Ohio")): (49, 1.10),
    frozenset(("California", "Ohio")): (52, 1.02),
}


def on_demand_data_center() -> DeviceGraph:
    """Eight instances of eight GPUs: 100 Gbit/s inside, 3.125 Gbit/s across, no delay."""
    return _graph(
        [f"instance-{gpu // 8}" for gpu in range(NUM_GPUS)], _joined((0, 100), (0, 3.125))
    )


def spot_data_center() -> DeviceGraph:
    """Eight instances of four GPUs with 100 Gbit/s inside, and 32 single ones: 1.25 Gbit/s."""
    half = NUM_GPUS // 2
    places = [f"instance-{gpu // 4}" for gpu in range(half)]
    places += [f"single-{gpu}" for gpu in range(half, NUM_GPUS)]
    return _graph(places, _joined((0, 100), (0, 1.25)))


def two_sites() -> DeviceGraph:
    """32 GPUs each in Ohio and Virginia: 1 ms and 5 Gbit/s inside, 11 ms and 1.12 across."""
    return _graph(_spread("Ohio", "Virginia"), _joined((1, 5), (11, 1.12)))


def four_us_regions() -> DeviceGraph:
    """16 GPUs each in Virginia, Oregon, California and Ohio."""
    return _graph(
        _spread("Virginia", "Oregon", "California", "Ohio"), lambda pair: _regional(pair, _US)
    )


def eight_world_regions() -> DeviceGraph:
    """Eight GPUs each in eight of the ten regions, all but Singapore and Sydney."""
    places = _spread(
        "Oregon", "Virginia", "Ohio", "Tokyo", "Seoul", "London", "Frankfurt", "Ireland"
    )
    return _graph(places, lambda pair: _regional(pair, DELAY_MS_AND_GBPS))


CASES: Mapping[str, Callable[[], DeviceGraph]] = {
    "on-demand data center": on_demand_data_center,
    "spot data center": spot_data_center,
    "two sites": two_sites,
    "four US regions": four_us_regions,
    "eight world regions": eight_world_regions,
}
"""DT-FM's cases 1 to 5, in its order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CyclicMoves:
    """DT-FM's local search for ``evolve``: cycles of moves, then one evaluation."""

    shape: Shape
    transfer_seconds: Matrix

    def __call__(self, part_of: Labels, _: np.random.Generator, /) -> Proposals[Improved]:
        """Propose the partition after its cycles of moves."""
        moved = cyclic_partitioning(part_of, self.transfer_seconds, num_parts=self.shape.num_parts)
        return Improved(moved, (yield moved))


def _spread(*places: str) -> list[str]:
    return [places[gpu * len(places) // NUM_GPUS] for gpu in range(NUM_GPUS)]


def _joined(inside: Figures, across: Figures) -> Callable[[frozenset[str]], Figures]:
    return lambda pair: inside if len(pair) == 1 else across


def _regional(pair: frozenset[str], figures: Mapping[frozenset[str], Figures]) -> Figures:
    return WITHIN_REGION if len(pair) == 1 else figures[pair]


def _graph(places: list[str], figures: Callable[[frozenset[str]], Figures]) -> DeviceGraph:
    found = np.array(
        [[figures(frozenset((one, other))) for other in places] for one in places], dtype=float
    )
    return DeviceGraph(
        names=tuple(f"{place}/{gpu}" for gpu, place in enumerate(places)),
        latency_seconds=found[:, :, 0] * MILLISECOND,
        bytes_per_second=found[:, :, 1] * GIGA / BITS_PER_BYTE,
        weights=np.ones(NUM_GPUS),
    )
