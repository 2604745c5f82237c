"""The figure: accuracy against the bound, and the rewards of every step at each bound."""

from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from bench.proof.learning.cases import BOUNDS, LEAST_AFTER, Case
from bench.proof.learning.play import Kept
from hetrl_core.job.algorithm import AlgorithmType
from hetrl_core.job.spec import Engine

_COLOURS = dict(zip(BOUNDS, ("#1f2328", "#1a7f5a", "#2563c9", "#c2571a"), strict=True))
_LINES = {False: "-", True: "--"}
_MARKS = {AlgorithmType.GRPO: "o", AlgorithmType.PPO: "s"}
_SMOOTHED_STEPS = 5
_BESIDE = 0.16
"""Of bounds, between what is drawn at the same one."""


def draw(found: Mapping[Case, Kept], path: Path) -> None:
    """Draw what was played with the transformers engine and can be compared."""
    plain = {
        case: each
        for case, each in found.items()
        if case.engine is Engine.TRANSFORMERS and not case.control
    }
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    against_bound, against_step = figure.subplots(1, 2)
    _accuracies(against_bound, plain)
    _rewards(against_step, plain)
    figure.savefig(path, dpi=130)


def _accuracies(axes: Axes, found: Mapping[Case, Kept]) -> None:
    """Draw means over the seeds, and the least and most of them, side by side at each bound."""
    kinds = sorted(found, key=lambda case: (case.algorithm, case.is_naive, case.max_staleness))
    for index, ((algorithm, is_naive), alike) in enumerate(
        groupby(kinds, key=lambda case: (case.algorithm, case.is_naive))
    ):
        accuracies = {
            bound: [found[case].result["accuracy_after"] for case in cases]
            for bound, cases in groupby(alike, key=lambda case: case.max_staleness)
        }
        means = [fmean(each) for each in accuracies.values()]
        spread = (
            [mean - min(each) for mean, each in zip(means, accuracies.values(), strict=True)],
            [max(each) - mean for mean, each in zip(means, accuracies.values(), strict=True)],
        )
        axes.errorbar(
            [bound + (index - 1.5) * _BESIDE for bound in accuracies],
            means,
            spread,
            linestyle=_LINES[is_naive],
            marker=_MARKS[algorithm],
            capsize=3,
            elinewidth=0.8,
            color="#c2571a" if is_naive else "#2563c9",
            label=f"{algorithm}, {'naive' if is_naive else 'decoupled'}",
        )
    axes.axhline(LEAST_AFTER, color="0.6", linewidth=0.8)
    axes.set(
        xlabel="bound η",
        ylabel="held-out accuracy at the end, mean and range",
        ylim=(axes.dataLim.y0 - 0.04, 1.0),
    )
    axes.set_xticks(BOUNDS)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(alpha=0.3)
    if found:
        axes.legend(loc="lower left", frameon=False, ncols=2)


def _rewards(axes: Axes, found: Mapping[Case, Kept]) -> None:
    """Draw GRPO's first seed, each bound in its colour."""
    for case, each in found.items():
        if case.algorithm is AlgorithmType.GRPO and case.seed == 1:
            axes.plot(
                _smoothed(each.rewards),
                linestyle=_LINES[case.is_naive],
                color=_COLOURS[case.max_staleness],
                linewidth=1.4,
                label=f"η = {case.max_staleness}{', naive' if case.is_naive else ''}",
            )
    axes.set(
        xlabel="step",
        ylabel=f"reward, mean of {_SMOOTHED_STEPS} steps (GRPO, seed 1)",
        ylim=(0, 1.02),
    )
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend(loc="lower right", frameon=False, ncols=2)


def _smoothed(values: tuple[float, ...]) -> list[float]:
    return [fmean(values[max(0, end - _SMOOTHED_STEPS) : end]) for end in range(1, len(values) + 1)]
