"""A simulated run as a picture: the staleness histogram, and who waited when."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from hetrl_planner.simulator.measurement.result import SimulationResult, StepRecord

TRAINER, ROLLOUTS = "#1b6ca8", "#d9822b"
"""Distinguishable with red-green colour blindness."""

MAX_BINS = 40


def draw(result: SimulationResult, path: Path) -> None:
    """Write the picture to a file; its ending says the format.

    Raises:
        OSError: it cannot be written.
        ValueError: the ending names no format.
    """
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2, 3))
    _draw_staleness(left, result)
    _draw_idle(right, result.timeline)
    figure.suptitle(
        f"{result.samples_per_second:.1f} samples/s, step {result.step_seconds.mean:.2f} s, "
        f"{result.measured_steps} steps after the warm-up"
    )
    figure.savefig(path, dpi=110)


def _draw_staleness(axes: Any, result: SimulationResult) -> None:
    found = result.staleness
    total = sum(found.histogram) or 1
    shares = [100 * count / total for count in found.histogram]
    bars = axes.bar(range(len(shares)), shares, color=TRAINER)
    axes.bar_label(bars, fmt="%.0f", padding=2)
    axes.margins(y=0.1)
    axes.set_xticks(range(len(shares)))
    axes.set_xlabel("staleness, versions")
    axes.set_ylabel("trained trajectories, %")
    axes.set_title(f"mean {found.mean:.2f}, p95 {found.p95}, max {found.max}", fontsize=10)


def _draw_idle(axes: Any, timeline: tuple[StepRecord, ...]) -> None:
    for name, color, share_of in (
        ("trainer", TRAINER, lambda each: each.trainer_idle_share),
        ("rollouts", ROLLOUTS, lambda each: each.rollout_idle_share),
    ):
        edges, percent = _binned(timeline, share_of)
        axes.stairs(percent, edges, color=color, label=name, linewidth=1.6, baseline=None)
    axes.set_ylim(0, 100)
    axes.set_xlabel("simulated time, s")
    axes.set_ylabel("idle, %")
    axes.set_title("who waits", fontsize=10)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(frameon=False)


def _binned(
    timeline: tuple[StepRecord, ...], share_of: Callable[[StepRecord], float]
) -> tuple[list[float], list[float]]:
    """Return edges and percentages of at most ``MAX_BINS`` runs of steps, weighed by time.

    Steps often go in pairs, a long one and a short one. So many are taken by even numbers, or
    the pairs would hide the trend.
    """
    size = 1 if len(timeline) <= MAX_BINS else 2 * -(-len(timeline) // (2 * MAX_BINS))
    firsts = range(0, max(1, len(timeline) // size) * size, size)
    runs = [timeline[first : first + size] for first in firsts if timeline]
    edges = [run[0].ended_at_seconds - run[0].seconds for run in runs]
    edges.append(runs[-1][-1].ended_at_seconds if runs else 0.0)
    percent = [
        100
        * sum(share_of(each) * each.seconds for each in run)
        / (sum(each.seconds for each in run) or 1.0)
        for run in runs
    ]
    return edges, percent
