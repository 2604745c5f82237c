"""Event files, read back record by record."""

import struct
import time
from pathlib import Path
from typing import Any

import pytest
from tensorboardX.proto.event_pb2 import Event, SessionLog

from hetrl_runtime.coordinator.reporting.curves import Curves

DEADLINE_SECONDS = 20.0
SIZE = struct.Struct("<Q")


def a_record(step: int, **changes: Any) -> dict[str, Any]:
    return {
        "step": step,
        "consumed": 4,
        "discarded": 1,
        "response_tokens": 20,
        "reward_mean": 0.25,
        "reward_parts": {"correct": 0.125},
        "called_tools": 3,
        "staleness": {"0": 1, "2": 3},
        "step_seconds": 2.0,
        "wait_seconds": 0.5,
        "samples_per_second": 2.0,
        "metrics": {"loss": -0.125},
        **changes,
    }


def events(folder: Path) -> list[Event]:
    """All events of a folder that are written whole, in the order of its files."""
    found = []
    for file in sorted(folder.iterdir(), key=lambda each: each.stat().st_mtime_ns):
        data = file.read_bytes()
        while len(data) > SIZE.size and len(data) >= SIZE.unpack_from(data)[0] + 16:
            (size,) = SIZE.unpack_from(data)
            found.append(Event.FromString(data[12 : 12 + size]))
            data = data[16 + size :]
    return found


def scalars(folder: Path) -> list[tuple[int, str, float]]:
    return [
        (event.step, value.tag, value.simple_value)
        for event in events(folder)
        for value in event.summary.value
    ]


def test_figures_of_a_step_are_points_of_a_curve(tmp_path: Path) -> None:
    curves = Curves(tmp_path / "curves")
    curves.add_step(a_record(7))
    curves.close()

    found = {tag: value for step, tag, value in scalars(tmp_path / "curves") if step == 7}
    assert found == {
        "run/reward_mean": 0.25,
        "reward/correct": 0.125,
        "run/step_seconds": 2.0,
        "run/wait_seconds": 0.5,
        "run/samples_per_second": 2.0,
        "run/discarded": 1.0,
        "run/response_tokens_mean": 5.0,
        "run/called_tools_share": 0.75,
        "staleness/mean": 1.5,
        "staleness/max": 2.0,
        "trainer/loss": -0.125,
    }


def test_step_can_be_read_during_the_run(tmp_path: Path) -> None:
    curves = Curves(tmp_path)
    curves.add_step(a_record(1))

    # The library writes in a thread of its own.
    until = time.monotonic() + DEADLINE_SECONDS
    while not scalars(tmp_path) and time.monotonic() < until:
        time.sleep(0.01)
    assert {step for step, _, _ in scalars(tmp_path)} == {1}
    curves.close()


@pytest.mark.parametrize("restarts", [False, True], ids=["the trainer", "the coordinator"])
def test_going_back_takes_later_steps_out(tmp_path: Path, restarts: bool) -> None:
    curves = Curves(tmp_path)
    for step in (1, 2, 3):
        curves.add_step(a_record(step))
    if restarts:
        curves.close()
        curves = Curves(tmp_path)
    curves.add_step(a_record(2, reward_mean=0.5))
    curves.close()

    begun = [e.step for e in events(tmp_path) if e.session_log.status == SessionLog.START]
    assert begun == [1, 2]
    assert {step for step, _, _ in scalars(tmp_path)} == {1, 2, 3}


def test_folder_that_cannot_be_made_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(OSError, match="file"):
        Curves(tmp_path / "file" / "curves")


def test_run_that_asks_for_none_needs_no_library(tmp_path: Path) -> None:
    Curves(tmp_path / "curves").close()

    assert not list((tmp_path / "curves").iterdir())
