"""The source that reads records of `hetrl run`, of running and finished runs."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hetrl_cli.dashboard.boards.expression import Expression, Match, Series
from hetrl_cli.dashboard.boards.fleet import FLEET_BOARD
from hetrl_cli.dashboard.boards.job import JOB_BOARD
from hetrl_cli.dashboard.boards.panel import Board
from hetrl_cli.dashboard.sources.evaluate import Moments, Samples, evaluate, holds
from hetrl_cli.dashboard.sources.source import Extent, Line, SourceError, Span
from hetrl_cli.run.metrics.recording import Recording
from hetrl_cli.run.setup.folder import RunFolder

_LOOKS_PER_WINDOW = 4
_WINDOWS_PER_SPAN = 50
_LEAST_WINDOW_SECONDS = 10.0
"""Else a rate would show the single steps of a small model as spikes."""

_SILENT_SECONDS = 60.0
"""A run that has recorded nothing for so long was killed: it goes on no more."""


@dataclass(frozen=True, slots=True)
class _Run:
    name: str
    folder: RunFolder
    recording: Recording

    @property
    def is_live(self) -> bool:
        is_silent = time.time() - self.recording.times[-1] > _SILENT_SECONDS
        return not is_silent and not self.folder.end_file.exists()


class Runs:
    """One run's folder, or a folder of such folders."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._runs: dict[Path, _Run] = {}

    @property
    def name(self) -> str:
        """The folder."""
        return str(self._root)

    @property
    def boards(self) -> Sequence[Board]:
        """Those of jobs: no operator takes part in a local run."""
        return JOB_BOARD, FLEET_BOARD

    async def choices(self, board: Board) -> list[Mapping[str, str]]:  # noqa: ARG002  # same for all
        """Return every run that has recorded something, the newest first."""
        self._follow()
        recorded = sorted(self._recorded(), key=lambda each: each.recording.times[-1], reverse=True)
        return [{"namespace": _namespace(each), "hetrljob": each.name} for each in recorded]

    async def extent(self, scope: Sequence[Match]) -> Extent | None:
        """Return from when to when the chosen runs were recorded."""
        self._follow()
        runs = list(self._within(scope))
        if not runs:
            raise SourceError(f"{self._root} has no record of what was chosen")
        return Extent(
            begin=min(each.recording.times[0] for each in runs),
            end=max(each.recording.times[-1] for each in runs),
            is_live=any(each.is_live for each in runs),
        )

    async def ask(
        self, asked: Sequence[Expression], scope: tuple[Match, ...], span: Span
    ) -> list[list[Line]]:
        """Answer each expression from what was recorded."""
        runs = list(self._within(scope))
        moments = Moments(span=span, window_seconds=_window(runs, span))

        def find(series: Series) -> Iterator[Samples]:
            return (
                samples
                for run in runs
                for samples in _samples(run, series.name)
                if holds(samples.labels, (*scope, *series.where))
            )

        return [evaluate(each, find, moments) for each in asked]

    async def close(self) -> None:
        """Nothing is open."""

    def _follow(self) -> None:
        for folder in _folders(self._root):
            if folder.path not in self._runs:
                name = folder.path.relative_to(self._root).as_posix()
                self._runs[folder.path] = _Run(
                    folder.path.resolve().name if name == "." else name,
                    folder,
                    Recording(folder.metrics_file),
                )
        for run in self._runs.values():
            run.recording.follow()

    def _recorded(self) -> Iterator[_Run]:
        return (each for each in self._runs.values() if each.recording.times)

    def _within(self, scope: Sequence[Match]) -> Iterator[_Run]:
        return (
            each
            for each in self._recorded()
            if holds({"namespace": _namespace(each), "hetrljob": each.name}, scope)
        )


def _folders(root: Path) -> Iterator[RunFolder]:
    # A demo keeps its run one folder further down.
    for pattern in ("run.json", "*/run.json", "*/*/run.json"):
        for found in sorted(root.glob(pattern)):
            yield RunFolder(path=found.parent)


def _namespace(run: _Run) -> str:
    tracks = iter(run.recording.tracks.values())
    return next((each.labels["namespace"] for each in tracks if "namespace" in each.labels), "")


def _samples(run: _Run, name: str) -> Iterator[Samples]:
    looks = np.array(run.recording.times)
    for track in run.recording.tracks.values():
        if track.name == name:
            # Runs of one job share its name; here the folder's name distinguishes them.
            labels = {**track.labels, "hetrljob": run.name}
            yield Samples(labels, np.array(track.times), np.array(track.values), looks)


def _window(runs: Sequence[_Run], span: Span) -> float:
    def spacing(run: _Run) -> float:
        times = np.array(run.recording.times)
        inside = times[(times >= span.begin) & (times <= span.end)]
        return float(np.diff(inside).mean()) if len(inside) > 1 else 0.0

    widest = max((spacing(each) for each in runs), default=0.0)
    return max(
        _LEAST_WINDOW_SECONDS,
        _LOOKS_PER_WINDOW * widest,
        (span.end - span.begin) / _WINDOWS_PER_SPAN,
    )
