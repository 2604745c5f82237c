"""Has the processes of a run forked from an interpreter that is warm, and waits for their ends.

What is done on the other side, and why, is ``forks``'s to say.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator

from hetrl_cli.run.processes.process import Command, last_line
from hetrl_cli.run.processes.restart import Exit


class Started:
    """A process that was forked, as `hetrl run`'s ``Process`` is one that was executed."""

    def __init__(self, command: Command, group: int) -> None:
        self.command = command
        self.group = group
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def wait(self) -> Exit:
        """Wait for its end, and end the children that it left behind."""
        code = await asyncio.shield(self.ended)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.group, signal.SIGKILL)
        return Exit(
            process=self.command.name,
            code=code,
            last_line=last_line(self.command.log),
            at_seconds=time.monotonic(),
        )

    async def stop(self, *, grace_seconds: float) -> None:
        """Ask it to end; kill it and its children when the grace is over."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.group, signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_seconds):
                await self.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.group, signal.SIGKILL)
            await self.wait()


class Starter:
    """Asks the other side for processes; all of them end with it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._starting: asyncio.Queue[int] = asyncio.Queue()
        self._running: dict[int, Started] = {}
        self._one_at_a_time = asyncio.Lock()

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls) -> AsyncIterator["Starter"]:
        """Have it running inside."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "bench.proof.kill.forks",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        starter = cls(process)
        listening = asyncio.create_task(starter._listen())
        try:
            yield starter
        finally:
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()
            await listening

    async def start(self, command: Command) -> Started:
        """Start a command, whose first argument is `hetrl` itself."""
        assert self._process.stdin is not None
        # It is read for last words, also of one that was struck before it could open it.
        command.log.touch()
        said = {
            "arguments": command.arguments[1:],
            "environment": dict(command.environment),
            "log": str(command.log),
        }
        async with self._one_at_a_time:
            self._process.stdin.write(json.dumps(said).encode() + b"\n")
            group = await self._starting.get()
            started = self._running[group] = Started(command, group)
        return started

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            match line.split():
                case [b"started", group]:
                    self._starting.put_nowait(int(group))
                case [b"ended", group, code]:
                    while int(group) not in self._running:
                        await asyncio.sleep(0)
                    self._running.pop(int(group)).ended.set_result(int(code))
