"""One node's share of this machine: namespaces of its own for network, processes and mounts.

Killing the namespaces' first process takes everything inside with it: pods, containerd's shims,
mounts, veths, kube-proxy's nftables tables. So two clusters never meet, a node can be lost on
purpose, and nothing is left behind even when the owner was killed.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.errors import ClusterError, CommandFailedError
from e2e.cluster.pause import pause_program
from e2e.cluster.processes import ProcessTable

START_SECONDS = 10.0
# nsenter and not `ip netns exec`: that one mounts a new /sys, and cgroups would be gone.
KINDS = ("net", "pid", "mount", "uts", "ipc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespaces:
    """The namespaces of one running node."""

    init_pid: int

    def command(self, arguments: Sequence[str | Path]) -> list[str]:
        """Return the command line that runs `arguments` inside."""
        flags = [f"--{kind}" for kind in KINDS]
        inside = [str(argument) for argument in arguments]
        return ["nsenter", f"--target={self.init_pid}", *flags, "--", *inside]

    def run(self, *arguments: str | Path) -> str:
        """Run a command inside and return its output."""
        return run(self.command(arguments))


def create_namespaces(processes: ProcessTable, name: str) -> Namespaces:
    """Create namespaces that live until the process `name` is stopped."""
    flags = [f"--{kind}" for kind in KINDS]
    parent = processes.start(
        name,
        ["unshare", *flags, "--fork", "--kill-child", "--mount-proc", pause_program()],
    )
    processes.wait_for(
        name,
        lambda: bool(_children_of(parent)),
        what="its namespaces existed",
        timeout_seconds=START_SECONDS,
    )
    (init_pid,) = _children_of(parent)
    processes.record(f"{name}-init", init_pid)
    _wait_until_executed(init_pid)
    return Namespaces(init_pid=init_pid)


def run(command: Sequence[str | Path]) -> str:
    """Run a command of this machine and return its output."""
    arguments = [str(argument) for argument in command]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CommandFailedError(arguments, done.stderr or done.stdout)
    return done.stdout


def _children_of(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []


def _wait_until_executed(pid: int) -> None:
    # Before it is the pause program, its /proc is not mounted yet.
    deadline = time.monotonic() + START_SECONDS
    while Path(f"/proc/{pid}/exe").resolve() != pause_program().resolve():
        if time.monotonic() > deadline:
            raise ClusterError(f"the first process of a node did not start: pid {pid}")
        time.sleep(0.01)
