"""Points at which a process can be made to die: each is real, and only death is changed by them."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import hetrl_runtime
from hetrl_runtime.process.faults import DIE_AT, Point, parsed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", (None, 0)),
        ("commit-forced", (Point.COMMIT_FORCED, 1)),
        ("restored:3", (Point.RESTORED, 3)),
    ],
)
def test_what_is_asked_for_is_read(text, expected):
    assert parsed(text) == expected


@pytest.mark.parametrize(
    "text", ["nowhere", "restored:", "restored:0", "restored:-1", "restored:x"]
)
def test_what_is_no_point_is_refused_by_name(text):
    with pytest.raises(ValueError, match=f"{DIE_AT} must be one of lease-decided, .*got '{text}'"):
        parsed(text)


def test_every_point_is_passed_at_one_place():
    code = Path(hetrl_runtime.__file__).parent.rglob("*.py")
    text = "\n".join(file.read_text() for file in code if file.name != "faults.py")
    passed = Counter({point: text.count(f"passing(Point.{point.name})") for point in Point})

    assert passed == dict.fromkeys(Point, 1)


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
