"""The record of processes' series by `hetrl run`: writing and reading."""

import json
from pathlib import Path

from hetrl_cli.run.metrics.recording import Recorder, Recording, identity

STEP = identity("step", {"pod": "trainer-0"})
BUFFER = identity("buffer", {})


def read(path: Path) -> Recording:
    found = Recording(path)
    found.follow()
    return found


def samples(recording: Recording, name: str) -> list[tuple[float, float]]:
    return [
        pair
        for track in recording.tracks.values()
        if track.name == name
        for pair in zip(track.times, track.values, strict=True)
    ]


def test_series_has_a_value_at_every_look_until_gone(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "it")
    recorder.add(1.0, {STEP: 1})
    recorder.add(2.0, {STEP: 1, BUFFER: 7})
    recorder.add(3.0, {BUFFER: 8})

    found = read(tmp_path / "it")

    assert list(found.times) == [1, 2, 3]
    assert samples(found, "step") == [(1, 1), (2, 1)]
    assert samples(found, "buffer") == [(2, 7), (3, 8)]


def test_recording_writes_only_changes(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "it")
    for at in (1.0, 2.0, 3.0):
        recorder.add(at, {STEP: 1, BUFFER: at})

    *_, last = (tmp_path / "it").read_text().splitlines()
    assert json.loads(last) == {"t": 3.0, "new": [], "set": [[1, 3.0]], "gone": []}


def test_resumed_run_appends_to_the_same_file(tmp_path: Path) -> None:
    Recorder(tmp_path / "it").add(1.0, {STEP: 5})
    Recorder(tmp_path / "it").add(9.0, {BUFFER: 2, STEP: 6})

    found = read(tmp_path / "it")

    assert samples(found, "step") == [(1, 5), (9, 6)]
    assert samples(found, "buffer") == [(9, 2)]


def test_half_written_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "it")
    recorder.add(1.0, {STEP: 1})
    recorder.add(2.0, {STEP: 2})
    text = (tmp_path / "it").read_text()
    (tmp_path / "it").write_text(text[:-5])

    found = read(tmp_path / "it")
    assert samples(found, "step") == [(1, 1)]
    (tmp_path / "it").write_text(text)
    found.follow()
    assert samples(found, "step") == [(1, 1), (2, 2)]


def test_line_that_a_killed_run_left_in_half_is_skipped(tmp_path: Path) -> None:
    Recorder(tmp_path / "it").add(1.0, {STEP: 1})
    with (tmp_path / "it").open("a") as file:
        file.write('{"t": 2.0, "new"')
    Recorder(tmp_path / "it").add(3.0, {STEP: 3})

    assert samples(read(tmp_path / "it"), "step") == [(1, 1), (3, 3)]


def test_empty_recording_is_empty(tmp_path: Path) -> None:
    assert not read(tmp_path / "it").times
