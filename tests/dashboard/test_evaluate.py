"""Expressions answered here as a real Prometheus answers them."""

import math
import random
import subprocess
from collections.abc import Iterator

import numpy as np
import pytest

from e2e.cluster.packages import PROMETHEUS_PACKAGES, require_packages
from e2e.prometheus import serving
from hetrl_cli.dashboard.boards.all import BOARDS
from hetrl_cli.dashboard.boards.expression import Expression, Match, Series, quantile, rate, series
from hetrl_cli.dashboard.boards.panel import Board
from hetrl_cli.dashboard.sources.evaluate import Moments, Samples, evaluate, holds
from hetrl_cli.dashboard.sources.prometheus import Prometheus
from hetrl_cli.dashboard.sources.promql import written
from hetrl_cli.dashboard.sources.source import Line, Span
from hetrl_cli.run.metrics.recording import Identity
from tests.chart.exposed import families
from tests.dashboard.recorded import JOB, T0, Looks, a_series, open_metrics

SPAN = Span(begin=0.0, end=60.0, step_seconds=10.0)


def some(values: list[float], *, every: float = 5.0, **labels: str) -> Samples:
    """Samples from 0 s on, with looks that went on to the span's end."""
    times = every * np.arange(len(values))
    looks = np.arange(0.0, SPAN.end + every, every)
    return Samples(labels, times, np.array(values), looks)


def answer(expression: Expression, *samples: Samples, window: float = 20.0) -> list[list[float]]:
    moments = Moments(span=SPAN, window_seconds=window)
    return [list(line.values) for line in evaluate(expression, lambda _: samples, moments)]


def test_rate_is_the_growth_per_second() -> None:
    (values,) = answer(rate("x"), some([2.0 * n for n in range(13)]))
    assert values[2:] == pytest.approx([0.4] * 5)


def test_counter_reset_loses_nothing() -> None:
    (values,) = answer(rate("x"), some([0, 10, 20, 0, 10, 20, 30, 40, 50, 60, 70, 80, 90]))
    assert values[2:] == pytest.approx([2.0 * 0.75, 2.0 * 0.75, 2, 2, 2], rel=0.4)
    assert min(values[2:]) > 0


def test_ended_series_has_no_value_at_the_next_evaluation() -> None:
    (values,) = answer(series("x"), some([1.0, 2.0, 3.0]))
    assert values[:2] == [1, 3]
    assert all(math.isnan(each) for each in values[2:])


def test_quantile_lies_within_its_bucket() -> None:
    buckets = [
        some([each * n for n in range(13)], le=edge)
        for edge, each in (("1", 1.0), ("2", 3.0), ("4", 4.0), ("+Inf", 4.0))
    ]
    (values,) = answer(quantile(0.5, "x"), *buckets)
    assert values[2:] == pytest.approx([1.5] * 5)


def test_series_match_by_equal_labels_only() -> None:
    one, other = some([1.0] * 13, pool="a"), some([2.0] * 13, pool="b")
    both = series("x").sum("pool") / series("x").sum("pool")
    assert answer(both, one, other)[0] == [1.0] * 7
    assert len(answer(series("x").sum() / series("x").sum("pool"), one, other)) == 0


@pytest.mark.parametrize(
    ("match", "is_met"),
    [
        (Match("pool", "l4"), True),
        (Match("pool", "l"), False),
        (Match("pool", "l.*", is_pattern=True), True),
        (Match("pool", "l", is_pattern=True), False),
        (Match("absent", ""), True),
        (Match("absent", ".+", is_pattern=True), False),
    ],
)
def test_conditions_are_of_whole_labels(match: Match, is_met: bool) -> None:
    assert holds({"pool": "l4"}, [match]) is is_met


def some_looks(seed: int) -> Looks:
    """Every series of ours over ten minutes, with resets, gaps and late beginnings."""
    draw = random.Random(seed)
    at, found, state = T0, [], {}
    # Buckets of a histogram begin together.
    births = {_histogram(each): T0 + draw.choice([0, 0, 0, 130]) for each in _identities()}
    while at < T0 + 600:
        values = {}
        for name in _identities():
            grows = name[0].endswith(("_total", "_sum", "_count", "_bucket"))
            before = state.get(name, 0.0)
            steps = draw.random() * 3 if grows else draw.random() * 9 - 3
            state[name] = (0.0 if draw.random() < 0.01 else before + steps) if grows else steps
            if at >= births[_histogram(name)]:
                values[name] = round(state[name], 4)
        found.append((round(at, 3), values))
        at += 4.7 + 0.6 * draw.random()
    return found


def _histogram(series: Identity) -> Identity:
    name, labels = series
    return name, tuple((key, value) for key, value in labels if key != "le")


def _identities() -> list[Identity]:
    """Two or three series of every name that our code exposes."""
    found: set[Identity] = set()
    for family in families():
        labels = [each for each in family.labels if each not in JOB]
        for name in family.series:
            for value in range(2):
                given = {"pool": "ab"[value]} | {
                    each: _CHOICES.get(each, "ab")[value] for each in labels
                }
                edges = _EDGES if name.endswith("_bucket") else [{}]
                found |= {a_series(name, **given, **edge) for edge in edges}
    return sorted(found)


_CHOICES = {"phase": ("Running", "Failed"), "state": ("wanted", "ready")}
_EDGES = [{"le": edge} for edge in ("0.0", "1.0", "2.0", "4.0", "+Inf")]


@pytest.fixture(scope="module")
def recorded() -> Looks:
    return some_looks(seed=1)


@pytest.fixture(scope="module")
def prometheus(recorded: Looks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that holds the same samples."""
    require_packages(PROMETHEUS_PACKAGES)
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "samples").write_text(open_metrics(recorded))
    subprocess.run(
        [
            "promtool",
            "tsdb",
            "create-blocks-from",
            "openmetrics",
            folder / "samples",
            folder / "data",
        ],
        check=True,
        capture_output=True,
        timeout=120,
    )
    with serving({"scrape_configs": []}, folder) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.mark.cluster
@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
async def test_panels_are_answered_as_by_prometheus(
    board: Board, recorded: Looks, prometheus: str
) -> None:
    every = samples_of(recorded)
    theirs = Prometheus(prometheus, scrape_seconds=15)
    scope = board.chosen(JOB | {"pod": ""})
    span = Span(begin=T0 + 100.3, end=T0 + 590.3, step_seconds=15.0)
    moments = Moments(span=span, window_seconds=60.0)

    def find(asked: Series) -> list[Samples]:
        where = (*scope, *asked.where)
        return [each for name, each in every if name == asked.name and holds(each.labels, where)]

    try:
        asked = [curve.expression for panel in board.panels for curve in panel.curves]
        for expression, other in zip(asked, await theirs.ask(asked, scope, span), strict=True):
            mine = evaluate(expression, find, moments)
            compare(written(expression, scope), by_labels(mine), by_labels(other))
    finally:
        await theirs.close()


def samples_of(looks: Looks) -> list[tuple[str, Samples]]:
    at = np.array([each for each, _ in looks])
    found = []
    for name, labels in sorted({each for _, values in looks for each in values}):
        there = [(t, values[name, labels]) for t, values in looks if (name, labels) in values]
        times, values = np.array(there).T
        found.append((name, Samples(dict(labels), times, values, at)))
    return found


def by_labels(lines: list[Line]) -> dict[tuple[tuple[str, str], ...], Line]:
    return {tuple(sorted(line.labels.items())): line for line in lines}


def compare(
    query: str,
    mine: dict[tuple[tuple[str, str], ...], Line],
    other: dict[tuple[tuple[str, str], ...], Line],
) -> None:
    there = {key for key, line in other.items() if np.isfinite(line.values).any()}
    assert {key for key, line in mine.items() if np.isfinite(line.values).any()} == there, query
    assert there, query
    for key in there:
        np.testing.assert_allclose(
            mine[key].values, other[key].values, rtol=1e-6, err_msg=f"{query} {key}"
        )


def test_queries_are_about_series() -> None:
    assert written(Series("up"), (Match("pod", 'a"b'),)) == 'up{pod="a\\"b"}'
