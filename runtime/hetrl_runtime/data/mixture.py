"""Several data sets as one: their prompts one after the other, and an order by weights."""

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from hetrl_runtime.data.order import PassOrder
from hetrl_runtime.data.prompt import Prompt, PromptSource

_BLOCK = 1000
"""Prompts over which each set has its share exactly, as far as whole numbers allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedSet:
    """One of the data sets."""

    name: str
    prompts: PromptSource
    weight: float


class Mixture:
    """The prompts of several data sets, by index over all of them."""

    def __init__(self, sets: Sequence[WeightedSet], *, source_field: str) -> None:
        """Take the sets; a row without ``source_field`` has the name of its set there."""
        self.sets = tuple(sets)
        self._source_field = source_field
        self._ends = list(accumulate(len(each.prompts) for each in sets))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, index: int) -> Prompt:
        number = bisect.bisect_right(self._ends, index)
        name = self.sets[number].name
        found = self.sets[number].prompts[index - (self._ends[number - 1] if number else 0)]
        columns = {self._source_field: name, **found.columns} if found.columns else {}
        return replace(found, set_name=name, columns=columns)

    def close(self) -> None:
        """Close all files."""
        for each in self.sets:
            each.prompts.close()


@dataclass(slots=True)
class MixtureOrder:
    """The index of the n-th prompt of a mixture.

    Each set has its own passes, and its share of every ``_BLOCK`` prompts, at random places.
    """

    sizes: Sequence[int]
    weights: Sequence[float]
    seed: int
    _orders: list[PassOrder] = field(init=False)
    _starts: list[int] = field(init=False)
    _counts: npt.NDArray[np.int64] = field(init=False)
    _block: tuple[int, npt.NDArray[np.int64]] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._orders = [
            PassOrder(num_prompts=size, seed=self.seed, salt=(number,))
            for number, size in enumerate(self.sizes, start=1)
        ]
        self._starts = [0, *accumulate(self.sizes)]
        self._counts = shares(self.weights)

    def index(self, number: int) -> int:
        """Return the index of prompt ``number`` over all sets."""
        block, position = divmod(number, _BLOCK)
        chosen = self._choices(block)
        of = int(chosen[position])
        before = int(np.count_nonzero(chosen[:position] == of))
        ordinal = block * int(self._counts[of]) + before
        return self._starts[of] + self._orders[of].index(ordinal)

    def _choices(self, block: int) -> npt.NDArray[np.int64]:
        """Return which set each prompt of a block is of."""
        if self._block is None or self._block[0] != block:
            sets = np.repeat(np.arange(len(self.sizes)), self._counts)
            rng = np.random.default_rng([self.seed, block, len(self.sizes)])
            self._block = block, rng.permutation(sets)
        return self._block[1]


def shares(weights: Sequence[float]) -> npt.NDArray[np.int64]:
    """Return how many of a block's prompts each weight stands for, at least one.

    By largest remainders: the numbers add up to the block.
    """
    exact = np.asarray(weights, dtype=np.float64) / sum(weights) * (_BLOCK - len(weights))
    counts = np.floor(exact).astype(np.int64) + 1
    rest = _BLOCK - int(counts.sum())
    counts[np.argsort(np.floor(exact) - exact, kind="stable")[:rest]] += 1
    return counts
