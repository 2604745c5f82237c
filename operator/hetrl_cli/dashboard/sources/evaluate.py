"""Expressions answered from recorded series, as Prometheus would answer them.

The formulas are Prometheus' own: a rate is the growth between a window's first and last samples,
resets allowed for, extended to the window's ends where samples are near them; a quantile is
interpolated within its bucket (`promql/functions.go`, `promql/quantile.go`). The tests hold both
against a real one.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hetrl_cli.dashboard.boards.expression import (
    Age,
    Ceiling,
    Change,
    Combined,
    Expression,
    Fold,
    Folded,
    Match,
    Quantile,
    Series,
)
from hetrl_cli.dashboard.sources.source import Line, Span, Values

LOOKBACK_SECONDS = 300.0
"""For so long a sample stands for the present, unless its series has ended."""

_NEAR = 1.1
"""A sample within so many mean distances of a window's end is near it."""

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """A recorded series."""

    labels: Labels
    times: Values
    values: Values
    looks: Values
    """Moments of every look for it: a series that one of them did not find has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """What is asked for: when, and over which windows."""

    span: Span
    window_seconds: float


def evaluate(  # noqa: C901  # one case a form
    expression: Expression,
    find: Callable[[Series], Iterable[Samples]],
    moments: Moments,
) -> list[Line]:
    """Answer an expression at every moment of the span; ``find`` knows the scope."""

    def answer(each: Expression) -> list[Line]:
        match each:
            case Series():
                return [Line(s.labels, _newest(s, moments)) for s in find(each)]
            case Change(series, is_per_second):
                seconds = moments.window_seconds if is_per_second else 1.0
                return [Line(s.labels, _growth(s, moments) / seconds) for s in find(series)]
            case Age(series):
                times = moments.span.times
                return [Line(line.labels, times - line.values) for line in answer(series)]
            case Ceiling(inner):
                return [Line(line.labels, np.ceil(line.values)) for line in answer(inner)]
            case Folded(fold, inner, by):
                return _folded(fold, answer(inner), by)
            case Quantile(q, buckets):
                return _quantiles(q, answer(buckets))
            case Combined(left, operator, right):
                return _combined(answer(left), operator, answer(right))

    return [line for line in answer(expression) if not np.isnan(line.values).all()]


def holds(labels: Labels, matches: Sequence[Match]) -> bool:
    """Tell whether labels meet every condition."""
    return all(_meets(labels.get(each.label, ""), each) for each in matches)


def _meets(value: str, match: Match) -> bool:
    if match.is_pattern:
        return re.fullmatch(match.value, value) is not None
    return value == match.value


def _newest(samples: Samples, moments: Moments) -> Values:
    times = moments.span.times
    last = np.searchsorted(samples.times, times, side="right") - 1
    looked = np.searchsorted(samples.looks, times, side="right") - 1
    found = np.where(last >= 0, samples.values[last], np.nan)
    at = np.where(last >= 0, samples.times[last], -np.inf)
    # A later look that did not find it says that it is gone.
    newest_look = np.where(looked >= 0, samples.looks[looked], np.inf)
    is_there = (times - at <= LOOKBACK_SECONDS) & (at >= newest_look)
    return np.where(is_there, found, np.nan)


def _growth(samples: Samples, moments: Moments) -> Values:
    """Return how much a counter grew within the window before each moment."""
    ends = moments.span.times
    begins = ends - moments.window_seconds
    first = np.searchsorted(samples.times, begins, side="left")
    last = np.searchsorted(samples.times, ends, side="right") - 1
    enough = last > first
    first, last = np.where(enough, first, 0), np.where(enough, last, min(1, len(samples.times) - 1))
    grown = samples.values + _lost_by_resets(samples.values)
    growth = grown[last] - grown[first]
    covered = samples.times[last] - samples.times[first]
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = covered / (last - first)
        before = samples.times[first] - begins
        # A counter was not below zero before its first sample.
        to_zero = np.where(growth > 0, covered * samples.values[first] / growth, np.inf)
        before = np.minimum(before, to_zero)
        after = ends - samples.times[last]
        extended = covered + _extension(before, distance) + _extension(after, distance)
        return np.where(enough, growth * extended / covered, np.nan)


def _extension(gap: Values, distance: Values) -> Values:
    return np.where(gap < _NEAR * distance, gap, distance / 2)


def _lost_by_resets(values: Values) -> Values:
    if not len(values):
        return values
    lost = np.where(values[1:] < values[:-1], values[:-1], 0.0)
    return np.concatenate(([0.0], np.cumsum(lost)))


def _folded(fold: Fold, lines: list[Line], by: tuple[str, ...]) -> list[Line]:
    groups: dict[tuple[str, ...], list[Values]] = {}
    for line in lines:
        key = tuple(line.labels.get(label, "") for label in by)
        groups.setdefault(key, []).append(line.values)
    return [
        Line({label: value for label, value in zip(by, key, strict=True) if value}, _fold(fold, of))
        for key, of in groups.items()
    ]


def _fold(fold: Fold, values: list[Values]) -> Values:
    stacked = np.stack(values)
    there = ~np.isnan(stacked)
    match fold:
        case Fold.SUM:
            found = np.where(there, stacked, 0.0).sum(axis=0)
        case Fold.COUNT:
            found = there.sum(axis=0).astype(float)
        case Fold.MAX:
            found = np.where(there, stacked, -np.inf).max(axis=0)
        case Fold.MIN:
            found = np.where(there, stacked, np.inf).min(axis=0)
    return np.where(there.any(axis=0), found, np.nan)


def _combined(left: list[Line], operator: str, right: list[Line]) -> list[Line]:
    others = {tuple(sorted(line.labels.items())): line.values for line in right}
    operation = {"/": np.divide, "+": np.add, "-": np.subtract}[operator]
    with np.errstate(divide="ignore", invalid="ignore"):
        return [
            Line(line.labels, operation(line.values, others[key]))
            for line in left
            if (key := tuple(sorted(line.labels.items()))) in others
        ]


def _quantiles(q: float, lines: list[Line]) -> list[Line]:
    groups: dict[tuple[tuple[str, str], ...], list[tuple[float, Values]]] = {}
    for line in lines:
        rest = tuple(sorted((k, v) for k, v in line.labels.items() if k != "le"))
        groups.setdefault(rest, []).append((float(line.labels["le"]), line.values))
    return [Line(dict(rest), _quantile(q, buckets)) for rest, buckets in groups.items()]


def _quantile(q: float, buckets: list[tuple[float, Values]]) -> Values:
    buckets = sorted(buckets, key=lambda each: each[0])
    edges = np.array([edge for edge, _ in buckets])
    if len(edges) < 2 or not np.isinf(edges[-1]):  # noqa: PLR2004  # one below infinity at least
        return np.full_like(buckets[0][1], np.nan)
    counts = np.maximum.accumulate(np.stack([values for _, values in buckets]), axis=0)
    total = counts[-1]
    rank = q * total
    which = np.minimum((counts < rank).sum(axis=0), len(edges) - 2)
    reaches_last = rank > counts[-2]
    column = np.arange(counts.shape[1])
    lower_count = np.where(which > 0, counts[which - 1, column], 0.0)
    lower_edge = np.where(which > 0, edges[which - 1], 0.0)
    in_bucket = counts[which, column] - lower_count
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = lower_edge + (edges[which] - lower_edge) * (rank - lower_count) / in_bucket
    inside = np.where((which == 0) & (edges[0] <= 0), edges[0], inside)
    found = np.where(reaches_last, edges[-2], inside)
    return np.where(total > 0, found, np.nan)
