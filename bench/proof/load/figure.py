"""The figure: seconds and requests against the number of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

_LINES = {
    "plans_seconds": ("all plans written", "#2563c9"),
    "stateful_sets_seconds": ("all StatefulSets exist", "#c2571a"),
    "running_seconds": ("all jobs run", "#1a7f5a"),
    "cpu_seconds": ("processor time of the operator", "#8a8f98"),
}


def draw(found: Mapping[str, Any], path: Path) -> None:
    """Draw the crowds whose jobs are a sweep."""
    crowds = [
        found[name] for name in sorted(found) if name.startswith("crowd-") and name[6:].isdecimal()
    ]
    if not crowds:
        return
    figure = Figure(figsize=(10, 4), layout="constrained")
    FigureCanvasAgg(figure)
    seconds, requests = figure.subplots(1, 2)
    sizes = [each["num_jobs"] for each in crowds]
    for field, (label, colour) in _LINES.items():
        seconds.plot(sizes, [each[field] for each in crowds], "o-", label=label, color=colour)
    requests.plot(sizes, [each["num_requests"] for each in crowds], "o-", color="#2563c9")
    for axes, what in ((seconds, "seconds"), (requests, "requests of the operator")):
        axes.set(xlabel="jobs submitted at once", ylabel=what, xscale="log", yscale="log")
        axes.grid(alpha=0.3)
    seconds.legend(frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1))
    figure.savefig(path, dpi=130)
