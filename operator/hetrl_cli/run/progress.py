"""How far a run is, read from the files that the coordinator keeps in its state directory.

``progress.json`` is the wire's ``Progress`` message, replaced about every second;
``steps.jsonl`` gets a line at every policy version. Showing them is the display's business.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessProgress:
    """One process as the coordinator last heard of it."""

    process: str
    role: str
    gpu_kind: str
    version: int
    running: int
    """Trajectories that it generates at the moment."""

    tokens_per_second: float
    idle_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The run at one moment."""

    step: int
    total_steps: int
    version: int
    samples_per_second: float
    reward_mean: float
    staleness_mean: float
    staleness_max: float
    eta_seconds: float
    buffered: int
    running: int
    finished: bool
    reason: str
    waiting_for: str
    processes: tuple[ProcessProgress, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one policy version was trained on."""

    step: int
    reward_mean: float
    samples_per_second: float


def read_progress(path: Path) -> Progress | None:
    """Return the newest progress; None before there is any."""
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return Progress(
        step=int(found["step"]),
        total_steps=int(found["total_steps"]),
        version=int(found["version"]),
        samples_per_second=float(found["samples_per_second"]),
        reward_mean=float(found["reward_mean"]),
        staleness_mean=float(found["staleness_mean"]),
        staleness_max=float(found["staleness_max"]),
        eta_seconds=float(found["eta_seconds"]),
        buffered=int(found["buffered"]),
        running=int(found["running"]),
        finished=bool(found["finished"]),
        reason=str(found["reason"]),
        waiting_for=str(found["waiting_for"]),
        processes=tuple(_process(each) for each in found["processes"]),
    )


def _process(found: Mapping[str, Any]) -> ProcessProgress:
    return ProcessProgress(
        process=str(found["process"]),
        role=str(found["role"]),
        gpu_kind=str(found["gpu_kind"]),
        version=int(found["version"]),
        running=int(found["running"]),
        tokens_per_second=float(found["tokens_per_second"]),
        idle_ratio=float(found["idle_ratio"]),
    )
