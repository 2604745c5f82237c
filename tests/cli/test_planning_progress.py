import os
import pty
import subprocess
import sys

WAITS = """
import time
from hetrl_cli.planning_progress import planning_progress
with planning_progress({seconds}) as should_stop:
    time.sleep(0.6)
    print(should_stop())
"""


def seen(seconds: float) -> tuple[str, str]:
    """Standard output of a wait, and what a terminal at its standard error was sent."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", WAITS.format(seconds=seconds)],
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "100"},
    )
    printed, _ = process.communicate(timeout=60)
    os.close(theirs)
    sent = os.read(ours, 1 << 20).decode()
    os.close(ours)
    return printed, sent


def test_terminal_shows_that_a_plan_is_being_made() -> None:
    printed, sent = seen(5)
    assert printed == "False\n"
    assert "planning" in sent
    assert "of at most 5 s" in sent


def test_search_stops_after_the_deadline() -> None:
    printed, _ = seen(0.1)
    assert printed == "True\n"


def test_progress_is_not_printed_without_a_terminal() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WAITS.format(seconds=5)],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("False\n", "")
