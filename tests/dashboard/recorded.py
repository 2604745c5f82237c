"""Recordings for tests, and the same samples in the text that Prometheus reads back."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from hetrl_cli.run.metrics.recording import Identity, Recorder, identity
from hetrl_cli.run.setup.folder import RunFolder, begin

T0 = 1_790_000_000.0
JOB = {"namespace": "team", "hetrljob": "math"}

Looks = Sequence[tuple[float, Mapping[Identity, float]]]
"""When, and what was seen then."""


def a_series(name: str, **labels: str) -> Identity:
    """A series of the job."""
    return identity(name, JOB | labels)


def a_run(folder: Path, looks: Looks, *, name: str = "math") -> RunFolder:
    """A run's folder that recorded these looks."""
    run = RunFolder(path=folder)
    begin(run, namespace="team", name=name)
    recorder = Recorder(run.metrics_file)
    for at, values in looks:
        recorder.add(at, values)
    return run


def open_metrics(looks: Looks) -> str:
    """The same as OpenMetrics text, series by series, for `promtool tsdb create-blocks-from`."""
    series = sorted({each for _, values in looks for each in values})
    lines = []
    for name, labels in series:
        words = ",".join(f'{key}="{value}"' for key, value in labels)
        lines += [
            f"{name}{{{words}}} {values[name, labels]!r} {at:.3f}"
            for at, values in looks
            if (name, labels) in values
        ]
    return "\n".join([*lines, "# EOF", ""])
