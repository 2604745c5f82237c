"""The GPUs that a task group owns, and the room left on them while it is placed.

``decode`` assigns them; nothing here knows tasks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf

from hetrl_planner.layout.fit.fitting import reserved_step

Segment = tuple[int, int, int]
"""Machine, first GPU, number of GPUs."""

Block = tuple[int, ...]
"""GPUs of one machine that hold one stage."""


@dataclass(frozen=True, slots=True)
class Owned:
    """The GPUs of a task group, machine by machine, in the genome's order."""

    machines: tuple[Segment, ...]

    @property
    def num_gpus(self) -> int:
        """All of them."""
        return sum(count for _, _, count in self.machines)

    def blocks(self, size: int) -> tuple[Block, ...]:
        """Return as many blocks of a size as the machines hold, in order."""
        return _blocks(self.machines, size)

    def num_blocks(self, size: int) -> int:
        """Return how many blocks of a size there are."""
        return sum(count // size for *_, count in self.machines)

    def without(self, num_blocks: int, size: int) -> list[Segment]:
        """Return the GPUs left after the first so many blocks of a size."""
        left = []
        for machine, first, count in self.machines:
            taken = min(num_blocks, count // size)
            num_blocks -= taken
            if count > taken * size:
                left.append((machine, first + taken * size, count - taken * size))
        return left


@dataclass(slots=True)
class Room:
    """Bytes that placed tasks of a group keep on its GPUs, and that the others will keep."""

    kept_bytes: dict[int, float] = field(default_factory=dict)
    working_bytes: dict[int, float] = field(default_factory=dict)
    """Working bytes of the placed task that needs most."""

    later_bytes: float = 0.0
    own_bytes: float = inf
    """Working bytes of the next task to place; others may need more beside the bytes that it
    keeps."""

    is_before_generation: bool = False
    """Whether generation still needs room for its cache on these GPUs."""

    def reserved(self, gpu: int) -> int:
        """Return the bytes of a GPU that a task must leave, rounded up."""
        kept = self.kept_bytes.get(gpu, 0.0) + self.later_bytes
        kept += max(0.0, self.working_bytes.get(gpu, 0.0) - self.own_bytes)
        return reserved_step(kept)

    def reserved_on(self, first: int, count: int) -> tuple[int, ...]:
        """Return the bytes that a task must leave of each of so many GPUs from the first on."""
        if not self.kept_bytes and not self.working_bytes:
            return (self.reserved(first),) * count
        return tuple([self.reserved(gpu) for gpu in range(first, first + count)])

    def most_reserved(self, block: Block) -> int:
        """Return the bytes that a task must leave of the fullest of some GPUs."""
        if not self.kept_bytes and not self.working_bytes:
            return self.reserved(block[0])
        return max([self.reserved(gpu) for gpu in block])


# A search cuts the same GPUs in many ways in sequence.
@lru_cache(maxsize=256)
def _blocks(machines: tuple[Segment, ...], size: int) -> tuple[Block, ...]:
    return tuple(
        tuple(range(first + index * size, first + (index + 1) * size))
        for _, first, count in machines
        for index in range(count // size)
    )


def only_on(owned: Owned, sites: Sequence[int], site_of: Sequence[int]) -> Owned:
    """Return the part that stands on some sites; ``site_of`` tells each machine's."""
    return Owned(tuple(each for each in owned.machines if site_of[each[0]] in sites))


def some_of(sites: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the sites, all but each of them, and each alone."""
    but_one = [tuple(each for each in sites if each != left) for left in sites]
    found = dict.fromkeys([sites, *but_one, *((each,) for each in sites)])
    return [each for each in found if each]
