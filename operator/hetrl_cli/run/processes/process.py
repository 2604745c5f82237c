"""One process of a run: start, wait and end.

The supervisor decides when.
"""

import asyncio
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hetrl_cli.run.processes.restart import Exit
from hetrl_core.task import Role

_TAIL_BYTES = 8192

_ANNOUNCED = 'echo "+$$" >&0; exec "$@" </dev/null'
"""Shell script that registers a process with the orphan cleanup, then becomes its command.

A process registers itself: if the supervisor did it and were killed between start and
registration, the process would outlive it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A process to start, and the file that its output goes to."""

    name: str
    """``<pod set>-<ordinal>``, as the pod would be called."""

    role: Role
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path


class Process:
    """A running process and its children, which share a process group."""

    def __init__(self, command: Command, child: asyncio.subprocess.Process) -> None:
        self.command = command
        self._child = child

    @classmethod
    async def start(cls, command: Command, *, cleanup: int) -> "Process":
        """Start the command in a process group of its own, appending to its log.

        ``cleanup`` is a file descriptor on which the orphan cleanup reads process groups.
        """
        with command.log.open("ab") as log:
            child = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                _ANNOUNCED,
                "sh",
                *command.arguments,
                stdin=cleanup,
                stdout=log,
                stderr=log,
                env=dict(command.environment),
                # Ctrl-C reaches the whole foreground group; only the supervisor may hear it.
                start_new_session=True,
            )
        return cls(command, child)

    @property
    def group(self) -> int:
        """The process group, which is also the process's id."""
        return self._child.pid

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._child.returncode is None

    async def wait(self) -> Exit:
        """Wait for its end, then end the children that it left behind."""
        code = await self._child.wait()
        self.kill()
        return Exit(
            process=self.command.name,
            code=code,
            last_line=last_line(self.command.log),
            at_seconds=time.monotonic(),
        )

    async def stop(self, *, grace_seconds: float) -> Exit:
        """Ask it to end; kill it and its children when the grace is over."""
        if self.is_running:
            self._send(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_seconds):
                return await self.wait()
        except TimeoutError:
            self.kill()
            return await self.wait()

    def kill(self) -> None:
        """End it and its children at once."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.group, number)
        except ProcessLookupError:
            return


def last_line(log: Path) -> str:
    """Return the last line of a log that is not empty."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
