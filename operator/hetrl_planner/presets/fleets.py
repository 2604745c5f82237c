"""The preset fleets by name: ``hetrl plan --topology preset:NAME``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_planner.presets import hetrl

FLEETS: Mapping[str, Callable[[], ClusterSnapshot]] = {
    "single-region": hetrl.single_region,
    "multi-region-hybrid": hetrl.multi_region_hybrid,
    "multi-country": hetrl.multi_country,
    "multi-continent": hetrl.multi_continent,
    "ten-regions": hetrl.ten_region_fleet,
}


@dataclass(frozen=True, slots=True)
class UnknownPreset:
    """An error: no preset has the name."""

    reason: str


def preset(name: str) -> ClusterSnapshot | UnknownPreset:
    """Return the fleet of that name, or the known names."""
    make = FLEETS.get(name)
    if make is None:
        return UnknownPreset(f"unknown preset {name!r}; there are {', '.join(FLEETS)}")
    return make()
