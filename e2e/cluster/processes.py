"""Long-running processes of a cluster: started detached, recorded in a file, stopped from anywhere.

A record names a process by pid and start time, so a reused pid is never killed. What the processes
are is left to `control_plane`, `nodes` and `fake_nodes`.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from e2e.cluster.errors import ClusterError

TAIL_LINES = 25
STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One process as the record file knows it."""

    name: str
    pid: int
    started_ticks: int
    """Start time in clock ticks since boot (field 22 of /proc/PID/stat); 0: ended at once."""

    @property
    def is_running(self) -> bool:
        return 0 != self.started_ticks == _started_ticks(self.pid)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTable:
    """The processes of one cluster, recorded under `folder`, with a log file each."""

    folder: Path

    def start(self, name: str, command: Sequence[str | Path]) -> int:
        """Start `command` in a session of its own, its output in the log `name`; return the pid."""
        log = self.log_of(name)
        log.parent.mkdir(parents=True, exist_ok=True)
        arguments = [str(part) for part in command]
        # It may outlive this interpreter, and a Popen that does calls that a leak.
        with log.open("ab") as output:
            pid = os.posix_spawnp(
                arguments[0],
                arguments,
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, output.fileno(), 1),
                    (os.POSIX_SPAWN_DUP2, output.fileno(), 2),
                ],
                setsid=True,
                setsigdef=_IGNORED_BY_PYTHON,
            )
        _children.add(pid)
        self.record(name, pid)
        return pid

    def record(self, name: str, pid: int) -> None:
        """Write down a process, so that it is stopped with the others."""
        process = Recorded(name=name, pid=pid, started_ticks=_started_ticks(pid))
        self._write([*self.recorded(), process])

    def stop(self, *names: str) -> None:
        """Kill the named processes, or all of them, and wait until they are gone."""
        recorded = self.recorded()
        chosen = [process for process in recorded if not names or process.name in names]
        # No SIGTERM: the data goes with the cluster, and an API server takes 10 s to say goodbye.
        for process in reversed(chosen):
            if process.is_running:
                os.kill(process.pid, signal.SIGKILL)
        deadline = time.monotonic() + STOP_SECONDS
        while any(process.is_running for process in chosen):
            if time.monotonic() > deadline:
                raise ClusterError(f"still running after SIGKILL: {chosen}")
            time.sleep(0.02)
        self._write([process for process in recorded if process not in chosen])

    def recorded(self) -> list[Recorded]:
        """Return the record, oldest first; empty when nothing was started."""
        if not self._record.exists():
            return []
        return [Recorded(**entry) for entry in json.loads(self._record.read_text())]

    def is_running(self, name: str) -> bool:
        return any(process.is_running for process in self.recorded() if process.name == name)

    def log_of(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.log"

    def wait_for(
        self, name: str, ready: Callable[[], bool], *, what: str, timeout_seconds: float
    ) -> None:
        """Wait until `ready()`; raise with the tail of the log `name` when it died or is late."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            # Asked before the look: what is ready may end between the two.
            running = self.is_running(name)
            if ready():
                return
            if not running:
                raise ClusterError(f"{name} ended before {what}:\n{self.tail(name)}")
            if time.monotonic() > deadline:
                waited = f"{name}: {what} not within {timeout_seconds:.0f} s"
                raise ClusterError(f"{waited}:\n{self.tail(name)}")
            time.sleep(0.05)

    def tail(self, name: str, lines: int = TAIL_LINES) -> str:
        """Return the last lines of the log `name`."""
        log = self.log_of(name)
        if not log.exists():
            return "(no log)"
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])

    @property
    def _record(self) -> Path:
        return self.folder / "processes.json"

    def _write(self, processes: Sequence[Recorded]) -> None:
        partial = self._record.with_suffix(".partial")
        partial.write_text(json.dumps([asdict(process) for process in processes], indent=1))
        partial.rename(self._record)


def current_process(name: str) -> Recorded:
    """Return the record of this very process."""
    return Recorded(name=name, pid=os.getpid(), started_ticks=_started_ticks(os.getpid()))


_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
"""Containers would inherit it: `yes | head` would not end in them."""

_children: set[int] = set()
"""The processes that this interpreter started and must reap."""


def _started_ticks(pid: int) -> int:
    """Return the start time of a live process, 0 for one that is gone or a zombie."""
    if pid in _children and os.waitpid(pid, os.WNOHANG)[0]:
        _children.discard(pid)
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] == "Z" else int(fields[19])
