"""The machines that one task group may be given, counted rather than named.

Large fleets are counted by whole machines of a site, small ones by single GPUs of a machine. Where
that makes too many bundles, machines are taken several at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from hetrl_planner.layout.devices import Devices
from hetrl_planner.problem.fleet_size import MostGpus

MOST_BUNDLES = 256
"""The most bundles; columns are priced for each of them. Ours."""

FEWEST_CHOICES = 2
"""None and all: nothing is left to be joined."""

Bundle = tuple[int, ...]
"""Units taken of each supply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """Equal machines, or one machine with its equal GPUs."""

    machines: tuple[int, ...]
    gpus_per_unit: int
    most_units: int
    step: int = 1
    """Units that are taken together."""

    @property
    def choices(self) -> tuple[int, ...]:
        """Numbers of units that a bundle may take."""
        return tuple(sorted({*range(0, self.most_units, self.step), self.most_units}))


def supplies(devices: Devices) -> tuple[Supply, ...]:
    """Return the supplies, in steps that leave no more than ``MOST_BUNDLES``."""
    if devices.num_gpus <= MostGpus.SMALL:
        return tuple(
            Supply(machines=(machine,), gpus_per_unit=1, most_units=size)
            for machine, size in enumerate(devices.machine_sizes)
        )
    alike: dict[tuple[int, int], list[int]] = {}
    for machine, site in enumerate(devices.machine_sites):
        alike.setdefault((site, devices.machine_sizes[machine]), []).append(machine)
    found = [
        Supply(machines=tuple(machines), gpus_per_unit=size, most_units=len(machines))
        for (_, size), machines in alike.items()
    ]
    while (number := _finest(found)) is not None:
        finest = found[number]
        found[number] = Supply(
            machines=finest.machines,
            gpus_per_unit=finest.gpus_per_unit,
            most_units=finest.most_units,
            step=2 * finest.step,
        )
    return tuple(found)


def bundles(here: Sequence[Supply], devices: Devices) -> list[list[Bundle]]:
    """Return every way to take something of some supplies, by the number of regions.

    Within these, most GPUs come before few: they make fast plans early, and bundles that cannot be
    as fast are then left out.
    """
    regions = [devices.region(each.machines[0]) for each in here]
    found: list[list[Bundle]] = [[] for _ in set(regions)]
    for bundle in product(*(each.choices for each in here)):
        taken = {region for region, units in zip(regions, bundle, strict=True) if units}
        if taken:
            found[len(taken) - 1].append(bundle)
    return [sorted(alike, key=lambda bundle: -_num_gpus(bundle, here)) for alike in found]


def _num_gpus(bundle: Bundle, here: Sequence[Supply]) -> int:
    return sum(units * each.gpus_per_unit for units, each in zip(bundle, here, strict=True))


def _finest(here: Sequence[Supply]) -> int | None:
    """Return the supply with most choices, ``None`` if there are few enough or none to join."""
    choices = [len(each.choices) for each in here]
    number = max(range(len(here)), key=choices.__getitem__)
    return number if prod(choices) > MOST_BUNDLES and choices[number] > FEWEST_CHOICES else None
