"""The page of predictions beside published numbers, and its picture."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import matplotlib
import numpy as np

from bench.planner.measured import notes
from bench.planner.measured.calibration import LIMITS, Parameters, mean_absolute_error
from bench.planner.measured.case import Gain, Row, Run, StepTime, Transfer
from bench.planner.measured.prediction import (
    misfit,
    phases,
    played,
    priced,
    responding,
    response_tokens,
)
from bench.planner.measured.rows import ROWS, VERL_LENGTH
from bench.planner.records import commit, machine

matplotlib.use("Agg")
from matplotlib import pyplot as plt

BAND = 0.25
SECONDS = (1, 2, 5, 10, 20, 40, 50, 70, 100, 150, 200, 300, 400, 600, 1000)
RATIOS = (1, 1.25, 1.5, 2, 2.5, 3)
LENGTHS = (3072, 6144, 9216, 12288)
"""Mean responses at which AReaL's gains are played again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A row with what is predicted of it."""

    number: int
    row: Row
    calibrates: bool
    shipped: float
    """With the parameters that ship."""

    fitted: float
    played: float | None
    """With the fitted parameters, where the cost model gives the prediction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfs:
    """Predictions with something assumed otherwise."""

    gains: tuple[tuple[str, tuple[float, ...]], ...]
    """AReaL's, by model: one a mean length."""

    fewer_sequences_seconds: float
    """verl's first row with 256 sequences an engine, shipped parameters."""

    lengths: tuple[int, int]
    """verl's inferred mean response, shipped and fitted."""


def what_ifs(shipped: Parameters, found: Parameters) -> WhatIfs:
    """Compute what the notes quote."""
    gains = [row for row in ROWS if row.source == "AReaL" and isinstance(row.measured, Gain)]
    first = next(row.measured for row in ROWS if isinstance(row.measured, StepTime))
    return WhatIfs(
        gains=tuple(
            (
                row.case.split(",")[0],
                tuple(
                    played(responding(row.measured.slower, tokens), found)
                    / played(responding(row.measured.faster, tokens), found)
                    for tokens in LENGTHS
                ),
            )
            for row in gains[:2]
            if isinstance(row.measured, Gain)
        ),
        fewer_sequences_seconds=priced(replace(first.run, max_num_seqs=256), shipped).step_seconds,
        lengths=(response_tokens(VERL_LENGTH, shipped), response_tokens(VERL_LENGTH, found)),
    )


def lines(
    answers: Sequence[Answer], shipped: Parameters, found: Parameters, other: WhatIfs
) -> Iterator[str]:
    """Yield the page."""
    yield "# Predicted against published"
    yield ""
    yield f"`python -m bench.planner.measured` on {machine()}, at commit {commit()}; seed 1."
    yield notes.INTRODUCTION
    yield from _summary(answers)
    yield from ("", "![Predicted against published](measured.png)", "")
    yield from _table(answers)
    yield from _parameters(shipped, found)
    yield from _phases(answers, shipped, found)
    yield from ("", notes.MISSES, "")
    yield from _gains(other)
    yield from ("", notes.assumed(other.lengths, other.fewer_sequences_seconds), "")
    yield from _misfits(found)
    yield from (notes.REFUSED, "", notes.LEFT_OUT, "", notes.SOURCES)


def _error(value: float, published: float) -> str:
    return f"{value / published - 1:+.0%}".replace("-0%", "0%").replace("+0%", "0%")


def _summary(answers: Sequence[Answer]) -> Iterator[str]:
    yield from ("", "## Mean size of the relative error", "")
    yield "| rows | | shipped | calibrated | within 25 %, shipped | calibrated |"
    yield "|---|---|---|---|---|---|"
    kinds = {
        "all": list(answers),
        "calibrated on": [each for each in answers if each.calibrates],
        "untouched": [each for each in answers if not each.calibrates],
    }
    for source in dict.fromkeys(_family(each.row) for each in answers):
        kinds[f"untouched, {source}"] = [
            each for each in kinds["untouched"] if _family(each.row) == source
        ]
    for name, some in kinds.items():
        published = [each.row.published for each in some]
        before, after = [each.shipped for each in some], [each.fitted for each in some]
        yield (
            f"| {name} | {len(some)} | {mean_absolute_error(before, published):.0%} "
            f"| {mean_absolute_error(after, published):.0%} "
            f"| {_within(before, published)} | {_within(after, published)} |"
        )


def _family(row: Row) -> str:
    if row.case.startswith("weights"):
        return "weights"
    return row.source.split()[0]


def _within(predicted: Sequence[float], published: Sequence[float]) -> int:
    return sum(abs(a / b - 1) <= BAND for a, b in zip(predicted, published, strict=True))


def _table(answers: Sequence[Answer]) -> Iterator[str]:
    yield "| | source | what | published | shipped | error | calibrated | error | played | half |"
    yield "|---" * 10 + "|"
    for each in answers:
        row, unit = each.row, each.row.unit
        digits = 2 if row.published < 10 else 1
        plays = "" if each.played is None else _error(each.played, row.published)
        yield (
            f"| {each.number} | {row.source} | {row.case} | {row.published:.{digits}f} {unit} "
            f"| {each.shipped:.{digits}f} | {_error(each.shipped, row.published)} "
            f"| {each.fitted:.{digits}f} | {_error(each.fitted, row.published)} | {plays} "
            f"| {'calibrated on' if each.calibrates else 'untouched'} |"
        )
    yield ""
    yield notes.COLUMNS


def _parameters(shipped: Parameters, found: Parameters) -> Iterator[str]:
    yield from ("", "## What the fit suggests", "")
    yield "| parameter | shipped | fitted | limits |"
    yield "|---|---|---|---|"
    for name, value in asdict(found).items():
        low, high = LIMITS[name]
        yield f"| `{name}` | {asdict(shipped)[name]:g} | {value:.3g} | {low:g} to {high:g} |"
    yield ""
    yield notes.SUGGESTED


def _phases(answers: Sequence[Answer], shipped: Parameters, found: Parameters) -> Iterator[str]:
    yield from ("", "## By phase", "")
    yield "| row | generation | shipped | calibrated | training | shipped | calibrated |"
    yield "|---|---|---|---|---|---|---|"
    for each in answers:
        match each.row.measured:
            case StepTime(run=run, phases=published) if published:
                before, after = phases(run, shipped), phases(run, found)
                yield (
                    f"| {each.number} | {published.generation:.0f} s | {before.generation:.0f} "
                    f"| {after.generation:.0f} | {published.training:.0f} s "
                    f"| {before.training:.0f} | {after.training:.0f} |"
                )


def _gains(other: WhatIfs) -> Iterator[str]:
    yield "| AReaL's gain at a mean response of | " + " | ".join(map(str, LENGTHS)) + " |"
    yield "|---" * (1 + len(LENGTHS)) + "|"
    for name, gains in other.gains:
        yield f"| {name} | " + " | ".join(f"{gain:.2f}" for gain in gains) + " |"


def _misfits(found: Parameters) -> Iterator[str]:
    refused = [str(number) for number, row in enumerate(ROWS, start=1) if _is_refused(row, found)]
    yield (
        "Splits that ran, and that our memory model refuses, nothing offloaded: rows "
        f"{', '.join(refused) or 'none'}."
    )


def _is_refused(row: Row, found: Parameters) -> bool:
    runs: tuple[Run, ...] = ()
    match row.measured:
        case StepTime(run=run):
            runs = (run,)
        case Gain(slower=slower, faster=faster):
            runs = (slower, faster)
    return any(misfit(run, found) for run in runs)


# The picture


def draw(answers: Sequence[Answer], path: Path) -> None:
    """Draw predicted over published: steps, weights, ratios."""
    panels = (
        ("Steps, seconds", (40, 1000), [each for each in answers if _is_step(each)]),
        ("Weights, seconds", (1, 40), [each for each in answers if _is_transfer(each)]),
        ("Gains, ratios", (0.9, 3.5), [each for each in answers if each.row.unit == "x"]),
    )
    figure, axes = plt.subplots(1, 3, figsize=(15, 7), width_ratios=(2, 1, 1), layout="constrained")
    for axis, (title, (low, high), some) in zip(axes, panels, strict=True):
        line = np.array([low, high])
        axis.plot(line, line, color="black", linewidth=1)
        axis.fill_between(
            line,
            line * (1 - BAND),
            line * (1 + BAND),
            color="grey",
            alpha=0.2,
            linewidth=0,
            label="within 25 %",
        )
        _points(axis, some)
        axis.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), title=title)
        ticks = [tick for tick in (SECONDS if high > 10 else RATIOS) if low <= tick <= high]
        for scale in (axis.xaxis, axis.yaxis):
            scale.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
            scale.set_ticks([], minor=True)
        axis.set_xlabel("published")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("predicted")
    axes[0].legend(loc="upper left", fontsize=9)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _is_step(answer: Answer) -> bool:
    return isinstance(answer.row.measured, StepTime)


def _is_transfer(answer: Answer) -> bool:
    return isinstance(answer.row.measured, Transfer)


def _points(axis: plt.Axes, answers: Sequence[Answer]) -> None:
    for color, name, half in (("C0", "calibrated on", True), ("C3", "untouched", False)):
        some = [each for each in answers if each.calibrates == half]
        published = [each.row.published for each in some]
        axis.scatter(
            published,
            [each.shipped for each in some],
            s=26,
            facecolors="none",
            edgecolors=color,
            label=f"{name}: shipped parameters",
        )
        axis.scatter(
            published,
            [each.fitted for each in some],
            s=26,
            color=color,
            label=f"{name}: fitted parameters",
        )
        axis.vlines(
            published,
            [each.shipped for each in some],
            [each.fitted for each in some],
            color=color,
            alpha=0.3,
            linewidth=1,
        )
        for each in some:
            # Rows of one kind are neighbours in both: half of the numbers go below.
            axis.annotate(
                str(each.number),
                (each.row.published, each.fitted),
                fontsize=8,
                color=color,
                xytext=(4, 4) if each.number % 2 else (-12, -9),
                textcoords="offset points",
            )
