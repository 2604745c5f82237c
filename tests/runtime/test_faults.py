"""Points at which a process can be made to die: each is real, and only death is changed by them."""

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import hetrl_runtime
from hetrl_runtime.process import faults
from hetrl_runtime.process.faults import DIE_AT, FaultPoints, Point, parsed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", (None, 0)),
        ("commit-forced", (Point.COMMIT_FORCED, 1)),
        ("restored:3", (Point.RESTORED, 3)),
    ],
)
def test_requested_fault_is_read(text, expected):
    assert parsed(text) == expected


@pytest.mark.parametrize(
    "text", ["nowhere", "restored:", "restored:0", "restored:-1", "restored:x"]
)
def test_unknown_fault_point_is_refused_by_name(text):
    with pytest.raises(ValueError, match=f"{DIE_AT} must be one of lease-decided, .*got '{text}'"):
        parsed(text)


def test_fault_points_are_each_passed_at_one_place():
    code = Path(hetrl_runtime.__file__).parent.rglob("*.py")
    text = "\n".join(file.read_text() for file in code if file.name != "faults.py")
    passed = Counter(re.findall(r"\bPoint\.(\w+)", text))

    assert passed == dict.fromkeys(Point.__members__, 1)


@pytest.mark.parametrize("fails", [False, True], ids=["returns", "raises"])
def test_fault_points_are_before_a_call_and_after_its_return(
    fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks: list[str] = []
    monkeypatch.setattr(faults, "passing", lambda point: marks.append(str(point)))

    @FaultPoints(before=Point.LEASE_DECIDED, after=Point.LEASE_WRITTEN)
    def function() -> str:
        marks.append("called")
        if fails:
            raise OSError("no disk")
        return "result"

    if fails:
        with pytest.raises(OSError, match="no disk"):
            function()
        assert marks == ["lease-decided", "called"]
    else:
        assert function() == "result"
        assert marks == ["lease-decided", "called", "lease-written"]


def test_process_dies_at_the_named_point_and_not_before():
    program = "from hetrl_runtime.process.faults import Point, passing\n" + "".join(
        f"passing(Point.{name}); print('{name}', flush=True)\n"
        for name in ("RESTORED", "REGISTERED", "RESTORED", "RESTORED")
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, DIE_AT: "restored:2"},
    )

    assert done.returncode == -signal.SIGKILL
    assert done.stdout.split() == ["RESTORED", "REGISTERED"]
