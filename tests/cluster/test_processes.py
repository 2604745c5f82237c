"""The processes of a test cluster: started detached, and stopped from anywhere."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from e2e.cluster.processes import ProcessTable

ROOT = Path(__file__).parents[2]
STARTER = """
import sys
from pathlib import Path
from e2e.cluster.processes import ProcessTable
print(ProcessTable(folder=Path(sys.argv[1])).start("sleeper", ["sleep", "60"]))
"""


@pytest.fixture
def table(tmp_path: Path) -> ProcessTable:
    return ProcessTable(folder=tmp_path)


def test_process_outlives_its_starter_and_is_stopped_by_another(table: ProcessTable) -> None:
    starter = subprocess.run(
        [sys.executable, "-W", "error", "-c", STARTER, table.folder],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
    )

    # A Popen left behind would have said so: "subprocess … is still running".
    assert starter.stderr == ""
    assert table.is_running("sleeper")
    (sleeper,) = table.recorded()
    assert sleeper.pid == int(starter.stdout)
    table.stop()
    assert not sleeper.is_running


def test_output_goes_to_the_log_and_signals_act_as_usual(
    table: ProcessTable,
) -> None:
    table.start("status", ["grep", "SigIgn", "/proc/self/status"])

    table.wait_for(
        "status", lambda: "SigIgn" in table.tail("status"), what="a word", timeout_seconds=30
    )

    ignored = int(table.tail("status").split()[1], base=16)
    assert not ignored & 1 << signal.SIGPIPE - 1


@pytest.mark.parametrize("command", ["true", "false"])
def test_process_that_ended_is_not_running_and_can_be_stopped(
    table: ProcessTable, command: str
) -> None:
    table.start("short", [command])
    deadline = time.monotonic() + 30
    while table.is_running("short"):
        assert time.monotonic() < deadline, "a command that ends at once still runs"

    table.stop()
    assert table.recorded() == []


def test_program_that_is_not_there_is_named(table: ProcessTable) -> None:
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        table.start("missing", ["no-such-program"])
