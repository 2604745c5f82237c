"""Data sources of boards: they list choices and evaluate expressions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hetrl_cli.dashboard.boards.expression import Expression, Match
from hetrl_cli.dashboard.boards.panel import Board

Values = NDArray[np.float64]


class SourceError(RuntimeError):
    """A source that fails or refuses; the message says which and why."""


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One series of an answer: a value at every moment asked for, NaN where there is none."""

    labels: Mapping[str, str]
    values: Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The moments that are asked for, in Unix time, both ends included."""

    begin: float
    end: float
    step_seconds: float

    @property
    def times(self) -> Values:
        """Every moment."""
        count = int((self.end - self.begin) / self.step_seconds + 1e-6)
        found: Values = self.begin + self.step_seconds * np.arange(count + 1, dtype=np.float64)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """From when to when a source knows something of what was chosen."""

    begin: float
    end: float
    is_live: bool
    """Whether more is to come."""


class Source(Protocol):
    """A Prometheus, or what runs recorded."""

    @property
    def name(self) -> str:
        """Its display name: an address or a folder."""

    @property
    def boards(self) -> Sequence[Board]:
        """The boards that it can fill."""

    async def choices(self, board: Board) -> list[Mapping[str, str]]:
        """Return what may be chosen: the values of the board's variables that occur together."""

    async def extent(self, scope: Sequence[Match]) -> Extent | None:
        """Return what span is known; None where any may be asked for."""

    async def ask(
        self, asked: Sequence[Expression], scope: tuple[Match, ...], span: Span
    ) -> list[list[Line]]:
        """Answer each expression.

        Raises:
            SourceError: no answer.
        """

    async def close(self) -> None:
        """Close connections."""
