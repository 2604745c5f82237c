"""The file format of recorded metrics: writer and reader.

A line of JSON is one sample of all series: ``{"t": Unix time, "new": [[name, labels], …], "set":
[[number, value], …], "gone": [number, …]}``. Series are numbered as they appear. A series that a
line does not name keeps its value until it is gone. Nothing here knows what is measured.
"""

import json
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

Identity = tuple[str, tuple[tuple[str, str], ...]]
"""A series' name and its labels, in order."""


def identity(name: str, labels: Mapping[str, str]) -> Identity:
    """Return the identity of a series."""
    return name, tuple(sorted(labels.items()))


def series_of(text: str, labels: Mapping[str, str]) -> dict[Identity, float]:
    """Return the series of a text with a target's labels; a series' own labels take precedence.

    Raises:
        ValueError: it is not Prometheus' text.
    """
    return {
        identity(sample.name, {**labels, **sample.labels}): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


class Recorder:
    """Appends samples to a file; readers skip an incomplete line of an earlier writer."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._numbers: dict[Identity, int] = {}
        self._values: dict[int, float] = {}
        # Tells readers that the numbers of an earlier writer are no longer valid.
        self._write({"begin": True})

    def add(self, at: float, values: Mapping[Identity, float]) -> None:
        """Append a sample: only what changed since the one before."""
        new = [each for each in values if each not in self._numbers]
        for each in new:
            self._numbers[each] = len(self._numbers)
        now = {self._numbers[each]: value for each, value in values.items()}
        self._write(
            {
                "t": round(at, 3),
                "new": [[name, dict(labels)] for name, labels in new],
                "set": [[n, value] for n, value in now.items() if self._values.get(n) != value],
                "gone": sorted(self._values.keys() - now.keys()),
            }
        )
        self._values = now

    def _write(self, line: Mapping[str, object]) -> None:
        # One write a line, so that a reader never sees two halves of different lines.
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")


@dataclass(slots=True)
class Track:
    """One recorded series: times and values, of the same length."""

    name: str
    labels: Mapping[str, str]
    times: "array[float]" = field(default_factory=lambda: array("d"))
    values: "array[float]" = field(default_factory=lambda: array("d"))


class Recording:
    """Follows a file as it grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.times: array[float] = array("d")
        """Times of the samples."""

        self.tracks: dict[Identity, Track] = {}
        self._offset_bytes = 0
        self._numbered: list[Track] = []
        self._held: dict[int, float] = {}

    def follow(self) -> None:
        """Read the lines that were added; leave an incomplete last line for the next call."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._offset_bytes)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._offset_bytes += len(line)
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            sample = json.loads(line)
        except ValueError:
            return  # A recorder that was killed left half a line.
        if sample.get("begin"):
            self._numbered, self._held = [], {}
            return
        for name, labels in sample["new"]:
            track = self.tracks.setdefault(identity(name, labels), Track(name, labels))
            self._numbered.append(track)
        for number in sample["gone"]:
            self._held.pop(number, None)
        self._held.update((number, value) for number, value in sample["set"])
        self.times.append(sample["t"])
        for number, value in self._held.items():
            self._numbered[number].times.append(sample["t"])
            self._numbered[number].values.append(value)
