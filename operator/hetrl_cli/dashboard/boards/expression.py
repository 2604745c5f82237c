"""Query expressions of panels, as frozen values: a small part of PromQL.

``rate("hetrl_tokens_generated_total").sum("pool")`` reads as the query does. The job is not part
of an expression. ``promql`` writes an expression as PromQL, ``evaluate`` computes it here; both
know every case of ``Expression``.
"""

from dataclasses import dataclass
from enum import StrEnum


class Fold(StrEnum):
    """How series of a group become one."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class Match:
    """A condition on one label: equal to a value, or matching it as a regular expression."""

    label: str
    value: str
    is_pattern: bool = False


class Algebra:
    """What may be done with every expression."""

    __slots__ = ()

    def sum(self, *by: str) -> "Folded":
        """Add up the series of each group; without labels, all."""
        return Folded(Fold.SUM, _known(self), by)

    def max(self, *by: str) -> "Folded":
        """Take the largest of each group."""
        return Folded(Fold.MAX, _known(self), by)

    def min(self, *by: str) -> "Folded":
        """Take the smallest of each group."""
        return Folded(Fold.MIN, _known(self), by)

    def count(self, *by: str) -> "Folded":
        """Count the series of each group."""
        return Folded(Fold.COUNT, _known(self), by)

    def __truediv__(self, other: "Expression") -> "Combined":
        return Combined(_known(self), "/", other)

    def __add__(self, other: "Expression") -> "Combined":
        return Combined(_known(self), "+", other)

    def __sub__(self, other: "Expression") -> "Combined":
        return Combined(_known(self), "-", other)


@dataclass(frozen=True, slots=True)
class Series(Algebra):
    """The newest value of every series of a name."""

    name: str
    where: tuple[Match, ...] = ()


@dataclass(frozen=True, slots=True)
class Change(Algebra):
    """How much counters grew within the window, resets allowed for; or by how much a second."""

    series: Series
    is_per_second: bool


@dataclass(frozen=True, slots=True)
class Folded(Algebra):
    """One series for each group of series that agree in some labels."""

    fold: Fold
    inner: "Expression"
    by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Quantile(Algebra):
    """A quantile of histograms, from bucket rates that still have their ``le``."""

    q: float
    buckets: Folded


@dataclass(frozen=True, slots=True)
class Combined(Algebra):
    """Two expressions, series by series: those with the same labels meet, others fall away."""

    left: "Expression"
    operator: str
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Age(Algebra):
    """Seconds that have passed since the moment that a series gives as Unix time."""

    series: Series


@dataclass(frozen=True, slots=True)
class Ceiling(Algebra):
    """The next whole number: of what is counted in whole ones, a quantile is one of them."""

    inner: "Expression"


Expression = Series | Change | Folded | Quantile | Combined | Age | Ceiling


def series(name: str, **where: str) -> Series:
    """Return a metric's series; labels may be asked for."""
    return Series(name, tuple(Match(label, value) for label, value in where.items()))


def rate(name: str, **where: str) -> Change:
    """Return a counter's growth per second."""
    return Change(series(name, **where), is_per_second=True)


def increase(name: str, **where: str) -> Change:
    """Return a counter's growth within the window."""
    return Change(series(name, **where), is_per_second=False)


def mean(histogram: str, *by: str) -> Combined:
    """Return the mean of what a histogram observed within the window."""
    return rate(f"{histogram}_sum").sum(*by) / rate(f"{histogram}_count").sum(*by)


def quantile(q: float, histogram: str, *by: str) -> Quantile:
    """Return a quantile of what a histogram observed within the window."""
    return Quantile(q, rate(f"{histogram}_bucket").sum("le", *by))


def _known(expression: Algebra) -> Expression:
    assert isinstance(expression, Expression)
    return expression
