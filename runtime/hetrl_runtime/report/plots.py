"""The four pictures of a run: reward, staleness, throughput and idle shares.

Each function draws one figure. A figure is written as a PNG file on white, and as SVG in
which the page's own colours and typeface take over, so that it follows light and dark.
"""

import io
from collections.abc import Sequence
from itertools import pairwise

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from hetrl_runtime.report.record import Record

INK, QUIET, GRID = "#1f2328", "#6a737d", "#e3e6ea"
SERIES = ("#2563c9", "#c2571a", "#1a7f5a", "#8a4fbf", "#a8325e", "#5f6b12")
ALARM = "#c5283d"

PAGE_COLOURS = {
    INK: "var(--ink)",
    QUIET: "var(--quiet)",
    GRID: "var(--grid)",
    ALARM: "var(--alarm)",
    **{colour: f"var(--series-{number})" for number, colour in enumerate(SERIES, start=1)},
}
"""What a figure's colours are called in the page's style sheet."""

_STYLE = {
    "font.family": "sans-serif",
    "font.size": 10.5,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": QUIET,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "grid.color": GRID,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "lines.linewidth": 2.2,
    "lines.solid_capstyle": "round",
    "svg.fonttype": "none",
    "svg.hashsalt": "hetrl",
}
_SIZE_INCHES = (6.4, 3.3)


def reward(record: Record) -> Figure:
    """Draw the mean reward of each step and its moving mean; each reward where there are several.

    With tools, how many call one.
    """
    figure, axes = _figure("step", "mean reward")
    steps = [step.step for step in record.steps]
    values = [step.reward_mean for step in record.steps]
    axes.plot(steps, values, color=SERIES[0], linewidth=1, alpha=0.35)
    axes.plot(steps, _moving_mean(values), color=SERIES[0], label="reward")
    names = sorted({name for step in record.steps for name in step.reward_parts})
    for number, name in enumerate(names, start=2):
        has = [step for step in record.steps if name in step.reward_parts]
        means = _moving_mean([step.reward_parts[name] for step in has])
        colour = SERIES[number % len(SERIES)]
        axes.plot([step.step for step in has], means, color=colour, linewidth=1.4, label=name)
        values += means
    if record.launch.data.tools:
        shares = [step.tool_share for step in record.steps]
        axes.plot(steps, _moving_mean(shares), color=SERIES[1], label="share that calls a tool")
    if names or record.launch.data.tools:
        axes.legend(frameon=False, labelcolor=INK)
    axes.set_ylim(min([0.0, *values]) * 1.02, max([1.0, *values]) * 1.02)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def staleness(record: Record) -> Figure:
    """Draw how stale the trajectories were when they were trained on, with the bound."""
    figure, axes = _figure("staleness when trained on, in policy versions", "trajectories")
    bound = record.launch.algorithm.max_staleness
    counts = record.staleness
    values = range(max([bound, *counts]) + 1)
    colours = [SERIES[0] if value <= bound else ALARM for value in values]
    bars = axes.bar(values, [counts[value] for value in values], width=0.62, color=colours)
    total = max(1, counts.total())
    labels = [f"{counts[value] / total:.0%}" for value in values]
    axes.bar_label(bars, labels, padding=3, color=QUIET)
    axes.axvline(bound + 0.5, color=ALARM, linewidth=1.4, linestyle=(0, (4, 3)))
    axes.text(
        bound + 0.54,
        0.98,
        f"bound {bound}",
        color=ALARM,
        va="top",
        transform=axes.get_xaxis_transform(),
    )
    axes.set_xlim(-0.6, max(values) + 1.1)
    axes.set_xticks(list(values))
    axes.margins(y=0.14)
    return figure


def throughput(record: Record) -> Figure:
    """Draw the trajectories trained on per second over the run's time."""
    figure, axes = _figure("seconds since the first step", "trajectories per second")
    pairs = list(pairwise(record.steps))
    seconds = [after.time_seconds - record.steps[0].time_seconds for _, after in pairs]
    rates = [
        after.num_trained / max(1e-9, after.time_seconds - before.time_seconds)
        for before, after in pairs
    ]
    axes.plot(seconds, rates, color=SERIES[2], linewidth=1, alpha=0.35)
    axes.plot(seconds, _moving_mean(rates), color=SERIES[2])
    axes.set_ylim(0, max([1.0, *rates]) * 1.08)
    return figure


def idle(record: Record) -> Figure:
    """Draw the share of the time in which each process had nothing to do."""
    figure, axes = _figure("step", "idle")
    steps = [step.step for step in record.steps]
    trainer = [step.trainer_idle for step in record.steps]
    _idle_line(axes, steps, trainer, name="trainer", colour=SERIES[0])
    rollouts = sorted({name for step in record.steps for name in step.idle})
    for number, name in enumerate(rollouts):
        shares = [step.idle.get(name, 0.0) for step in record.steps]
        _idle_line(axes, steps, shares, name=name, colour=SERIES[(number + 1) % len(SERIES)])
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(
        frameon=False, loc="outside upper left", ncols=2, labelcolor=INK, handlelength=1.2
    )
    return figure


def to_png(figure: Figure) -> bytes:
    """Write a figure as PNG on white."""
    with mpl.rc_context(_STYLE):
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=160, facecolor="white")
        return buffer.getvalue()


def to_svg(figure: Figure) -> str:
    """Write a figure as an SVG element that takes colours and type from the page."""
    with mpl.rc_context(_STYLE):
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    for colour, variable in PAGE_COLOURS.items():
        text = text.replace(colour, variable)
    return text[text.index("<svg") :]


def _figure(x: str, y: str) -> tuple[Figure, Axes]:
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        axes.set_xlabel(x)
        axes.set_ylabel(y)
    return figure, axes


def _idle_line(
    axes: Axes, steps: Sequence[int], shares: Sequence[float], *, name: str, colour: str
) -> None:
    mean = sum(shares) / max(1, len(shares))
    axes.plot(steps, _moving_mean(shares), color=colour, label=f"{name}: {mean:.0%}")


def _moving_mean(values: Sequence[float]) -> list[float]:
    """Average each value with those before it, over about a tenth of the run."""
    width = max(1, len(values) // 10)
    means = []
    for index in range(len(values)):
        window = values[max(0, index - width + 1) : index + 1]
        means.append(sum(window) / len(window))
    return means
