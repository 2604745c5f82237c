"""The runtime's process that answers about a job."""

import subprocess
import sys
from pathlib import Path

from hetrl_core.job.spec import JobSpec
from hetrl_core.preflight import request_of, request_to_json


def ask(
    spec: JobSpec, *command: str, folder: Path, timeout_seconds: float
) -> "subprocess.CompletedProcess[str]":
    """Run a command of the runtime with a job as its ``--request``, and wait for its end.

    Args:
        spec: the job.
        command: name and options, but for the request.
        folder: where the request is written.
        timeout_seconds: how long it may take.
    """
    request = folder / "request.json"
    request.write_text(request_to_json(request_of(spec)))
    return subprocess.run(  # noqa: S603  # our own command
        [str(Path(sys.executable).with_name("hetrl")), *command, "--request", str(request)],
        check=False,
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
    )


def last_line(done: "subprocess.CompletedProcess[str]") -> str:
    """Return why a process failed, in its own words."""
    lines = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
    return lines[-1].removeprefix("Error: ")
