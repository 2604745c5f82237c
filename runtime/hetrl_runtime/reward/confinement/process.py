"""One confined process that answers for a job's reward code, seen from the process that asks.

This module starts, asks and watches it; ``code`` replaces it and keeps a pool of them.
Answers come as JSON lines: nothing that the process says is ever executed.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from dataclasses import asdict
from typing import Any, Self

from hetrl_core.escape import one_line
from hetrl_core.job.reward import PythonReward
from hetrl_core.units import FLOAT32_MAX
from hetrl_runtime.reward.confinement import kernel, landlock
from hetrl_runtime.reward.confinement.usage import (
    TOO_MUCH_CPU,
    allow_cpu_seconds,
    excess,
    usage_of,
)
from hetrl_runtime.reward.verdict import Response, Unjudged, UnjudgedReason, Verdict

START_SECONDS = 60.0
"""For Python to start and the code to be loaded, libraries and all."""

LIFE_RESPONSES = 100
"""A process may use this many times what one response may, and ``START_SECONDS`` to load."""

_LOOK_SECONDS = 0.05


class FunctionError(ValueError):
    """The code cannot be loaded; its process said why."""


class CpuTimeError(OSError):
    """The code used up the processor time of one response, and its process has ended."""


class ConfinedProcess:
    """A process that answers one question at a time until it is closed."""

    def __init__(self, process: asyncio.subprocess.Process, *, life_seconds: int) -> None:
        self._process = process
        self._until_cpu_seconds: float = life_seconds
        self._killed_for: str | None = None
        self._is_killed = False
        self._watch = asyncio.create_task(self._watched())

    @classmethod
    async def started(cls, reward: PythonReward, *, private: str) -> Self:
        """Start a process and have it load the code, which may not read the folder ``private``.

        Raises:
            FunctionError: the code cannot be loaded or confined.
            OSError: the process does not start or answer; a TimeoutError after
                ``START_SECONDS``.
            ValueError: it answers something else.
        """
        _hide_this_process()
        life_seconds = int(START_SECONDS) + LIFE_RESPONSES * reward.cpu_seconds
        # -P: the folder "/" does not become a source of modules, and so readable.
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "hetrl_runtime.reward.confinement.runner"),
            *(reward.file, reward.function),
            *map(str, (reward.memory_bytes, life_seconds, os.getpid(), private)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=_environment(),
            cwd="/",
            start_new_session=True,
        )
        started = cls(process, life_seconds=life_seconds)
        try:
            async with asyncio.timeout(START_SECONDS):
                await started._reply()
        except BaseException:
            await started.close()
            raise
        return started

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def may_use(self, cpu_seconds: int) -> bool:
        """Allow some more processor time; return False if the process must be replaced first."""
        if self._process.returncode is not None:
            return False
        until = allow_cpu_seconds(self.pid, cpu_seconds)
        self._until_cpu_seconds = until or self._until_cpu_seconds
        return until is not None

    async def asked(self, response: Response) -> Verdict:
        """Return the verdict on one response.

        Raises:
            CpuTimeError: it used up its processor time.
            OSError: the process ended for another reason; the message says why.
            ValueError: it answers something else than a verdict.
        """
        request = json.dumps(asdict(response), default=str)
        assert self._process.stdin  # A pipe, by the way it was started.
        self._process.stdin.write(request.encode() + b"\n")
        await self._process.stdin.drain()
        match await self._reply():
            case {"reward": int() | float() as reward} if abs(reward) <= FLOAT32_MAX:
                return float(reward)
            case {"unjudged": str(reason), "detail": str(detail)}:
                return Unjudged(reason=UnjudgedReason(reason), detail=one_line(detail))
            case other:
                raise ValueError(f"it answered {other!r:.80}")

    async def close(self) -> None:
        """End the process and wait for its end."""
        self._watch.cancel()
        self._kill()
        await self._process.wait()

    async def _reply(self) -> dict[str, Any]:
        assert self._process.stdout
        line = await self._process.stdout.readline()
        if not line:
            status = await self._process.wait()
            if status == -signal.SIGXCPU or self._killed_for == TOO_MUCH_CPU:
                raise CpuTimeError(TOO_MUCH_CPU)
            raise OSError(self._killed_for or f"it ended with {status}")
        match json.loads(line):
            case {"error": said}:
                raise FunctionError(one_line(said))
            case dict(fields):
                return fields
        raise ValueError(f"it answered {line[:80]!r}")

    async def _watched(self) -> None:
        """End the process when it uses too much, also between two responses."""
        try:
            while self._killed_for is None:
                usage = usage_of(self.pid)
                self._killed_for = excess(usage, until_cpu_seconds=self._until_cpu_seconds)
                await asyncio.sleep(0 if self._killed_for else _LOOK_SECONDS)
        except OSError:
            return  # It has ended, and its exit code says more.
        except Exception:
            self._kill()  # A process that is not watched must not go on.
            raise
        self._kill()

    def _kill(self) -> None:
        # Once: a second signal to a process that has ended makes ``subprocess`` collect it, and
        # asyncio then warns that it does not know the exit code.
        if not self._is_killed:
            self._is_killed = True
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()


def _hide_this_process() -> None:
    """Keep this process's memory and variables from the code where Landlock does not.

    Only there, because it also keeps debuggers, core dumps and CUDA's sharing of memory between
    processes from working.
    """
    if sys.platform == "linux" and not landlock.version():
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)


def _environment() -> dict[str, str]:
    """Return what the code sees of the environment: no token, and one thread for each library."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "RAYON")}
    return {**kept, **threads, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
