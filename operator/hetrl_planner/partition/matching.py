"""Bottleneck perfect matching: pair two parts so that the slowest pair is as fast as possible.

Augmenting paths raise the allowed weight only if none is left below it (Burkard, Dell'Amico and
Martello, *Assignment Problems*, 2012, section 6.2), with capacities, for parts hold several equal
devices. A search needs thousands of matchings a second of parts with a handful of members each:
too many and too small for a graph library.
"""

from collections.abc import Sequence
from dataclasses import dataclass

Weights = Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class Matching:
    """The pairs of a matching whose largest weight is least."""

    bottleneck: float
    pairs: tuple[tuple[int, int, int], ...]
    """(row, column, how many) of each pair."""


def bottleneck_matching(
    weights: Weights, *, rows: Sequence[int], columns: Sequence[int]
) -> Matching:
    """Match every row to columns so that the largest weight used is least.

    Args:
        weights: of each row and column.
        rows: how many there are of each row.
        columns: how many there are of each column; as many as rows in all.
    """
    growing = _PartialMatching(weights, rows, columns)
    for row, count in enumerate(rows):
        growing.match(row, count)
    return Matching(
        growing.allowed,
        tuple(
            (row, column, count)
            for row, counts in enumerate(growing.flow)
            for column, count in enumerate(counts)
            if count
        ),
    )


class _PartialMatching:
    """A matching of the rows so far, at the least allowed weight."""

    def __init__(self, weights: Weights, rows: Sequence[int], columns: Sequence[int]) -> None:
        self.weights = weights
        self.spare = list(columns)
        self.flow = [[0] * len(columns) for _ in rows]
        # Every row and column is matched, so no bottleneck is below the best of any of them.
        least_by_row = [min(row) for row in weights]
        least_by_column = [min(column) for column in zip(*weights, strict=True)]
        self.allowed = max(least_by_row + least_by_column)

    def match(self, row: int, count: int) -> None:
        """Match a row so many times, rematching others where that helps."""
        while count:
            count -= self._shift(self._path_to_spare(row), most=count)

    def _path_to_spare(self, start: int) -> list[int]:
        """Return rows and columns in turn, from ``start`` to a column with room."""
        row_before: dict[int, int] = {}
        column_before = {start: -1}
        while True:
            for row in (reached := list(column_before)):
                for column, weight in enumerate(self.weights[row]):
                    if weight > self.allowed or column in row_before:
                        continue
                    row_before[column] = row
                    if self.spare[column]:
                        return _walk_back(column, row_before, column_before)
                    for other, counts in enumerate(self.flow):
                        if counts[column] and other not in column_before:
                            column_before[other] = column
                            reached.append(other)
            # The rows reached are more than the columns allowed to them can take.
            self.allowed = min(
                weight
                for row in column_before
                for column, weight in enumerate(self.weights[row])
                if column not in row_before
            )

    def _shift(self, path: list[int], *, most: int) -> int:
        """Match along a path as often as possible, freeing its old matches; return how often."""
        gained = list(zip(path[::2], path[1::2], strict=True))
        freed = list(zip(path[2::2], path[1:-1:2], strict=True))
        count = min(most, self.spare[path[-1]], *(self.flow[row][column] for row, column in freed))
        for row, column in gained:
            self.flow[row][column] += count
        for row, column in freed:
            self.flow[row][column] -= count
        self.spare[path[-1]] -= count
        return count


def _walk_back(column: int, row_before: dict[int, int], column_before: dict[int, int]) -> list[int]:
    path = []
    while column >= 0:
        row = row_before[column]
        path += [column, row]
        column = column_before[row]
    return path[::-1]
