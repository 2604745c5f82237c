"""Splits from the fastest on, each rated only when the iteration reaches it.

On GPUs with less room a split is no faster, so its rate on empty ones is a bound. ``fitting``
computes the rates.
"""

from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from math import prod

Split = tuple[int, int]
"""Tensor and pipeline sizes of a replica."""

_Rank = tuple[float, int, tuple[int, int]]


class RankedSplits:
    """An iteration over the splits that fit, the fastest per GPU first; equal ones by size."""

    def __init__(
        self, most: Sequence[tuple[float, Split]], rate: Callable[[Split], float] | None = None
    ) -> None:
        """Take the rates on empty GPUs, and the function for these; ``None``: these are empty."""
        self._rate = rate
        self._known: list[Split] = []
        self._waiting = [(_rank(each, split), rate is None, split) for each, split in most if each]
        heapify(self._waiting)

    def __iter__(self) -> Iterator[Split]:
        """Yield the splits in order; each is rated once."""
        for number in count():
            if number == len(self._known) and not self._find_next():
                return
            yield self._known[number]

    @property
    def first(self) -> Split | None:
        """The fastest, ``None`` if none fits."""
        return next(iter(self), None)

    def _find_next(self) -> bool:
        while self._waiting:
            _, is_rated, split = heappop(self._waiting)
            if is_rated:
                self._known.append(split)
                return True
            assert self._rate
            if rate := self._rate(split):
                heappush(self._waiting, (_rank(rate, split), True, split))
        return False


def _rank(rate: float, split: Split) -> _Rank:
    tensor, stages = split
    return -rate / prod(split), prod(split), (-tensor, -stages)
