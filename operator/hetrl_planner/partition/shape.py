"""Sizes of parts, and the part of each device.

Parts have no order and no roles here; the cost gives them (``network.StageOrder``).
"""

from dataclasses import dataclass

import numpy as np

from hetrl_planner.partition.graph import Labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The sizes of the parts: a pipeline's stages of ``dp`` devices, or task groups."""

    part_sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.part_sizes or min(self.part_sizes) < 1:
            raise ValueError(f"part_sizes must be one or more sizes >= 1, got {self.part_sizes}")

    @staticmethod
    def even(*, num_parts: int, part_size: int) -> "Shape":
        """Return so many parts of one size."""
        return Shape(part_sizes=(part_size,) * num_parts)

    @property
    def num_parts(self) -> int:
        """The number of parts."""
        return len(self.part_sizes)

    @property
    def num_devices(self) -> int:
        """Devices of all parts together."""
        return sum(self.part_sizes)

    def shuffled(self, rng: np.random.Generator) -> Labels:
        """Return a random partition, each equally likely."""
        return rng.permutation(np.repeat(np.arange(self.num_parts), self.part_sizes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """The part of each device, in the graph's order."""

    part_of: tuple[int, ...]

    @staticmethod
    def of(part_of: Labels) -> "Partition":
        """Return the value of an array of labels."""
        return Partition(part_of=tuple(int(part) for part in part_of))

    def members(self, part: int) -> tuple[int, ...]:
        """Return the devices of a part, by their numbers."""
        return tuple(device for device, each in enumerate(self.part_of) if each == part)
