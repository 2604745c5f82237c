"""A job's own reward code, asked from outside: in a process that may do nothing but answer.

What that process gives up is ``confinement``'s; here it is started, timed, and replaced when
it takes too long or dies. Answers come as JSON lines: nothing that it says is ever executed.
"""

import asyncio
import contextlib
import json
import logging
import math
import os
import resource
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hetrl_core.job.spec import PythonReward

START_SECONDS = 60.0
"""For Python to start and the code to be loaded, libraries and all."""

logger = logging.getLogger(__name__)


class CodeError(ValueError):
    """The code cannot be used; the message names the file and says why."""


class FunctionError(ValueError):
    """The code said what was wrong; its process lives, and can be asked again."""


class ConfinedCode:
    """Asks the function of a file; use it as an async context manager."""

    def __init__(self, reward: PythonReward) -> None:
        self._reward = reward
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Load the code.

        Raises:
            CodeError: it is not there, cannot be loaded, or this machine cannot confine it.
            OSError: its process does not start or answer.
        """
        file = self._reward.file
        try:
            self._process = await self._started()
        except FunctionError as error:
            raise CodeError(f"data.python: {file} cannot be used: {error}") from error
        except (OSError, ValueError) as error:
            reason = str(error) or f"no answer within {START_SECONDS:g} s"
            raise OSError(f"data.python: {file} does not start: {reason}") from error
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stop()

    async def score(self, response: str, answer: str) -> float:
        """Return what the function makes of a response and the reference answer.

        Zero where it raises, takes too long or too much memory, or returns no finite number; the
        log says so.
        """
        async with self._turn:
            try:
                self._process = self._process or await self._started()
                async with asyncio.timeout(self._reward.timeout_seconds):
                    return await self._asked(self._process, response, answer)
            except FunctionError as error:
                reason = str(error)
            except TimeoutError:
                reason = f"takes more than {self._reward.timeout_seconds:g} s"
                await self._stop()
            except (OSError, ValueError, RecursionError, OverflowError) as error:
                reason = f"its process is lost: {error}"
                await self._stop()
        logger.warning("data.python: a response is worth 0: %s: %.80r", reason, response)
        return 0.0

    async def _asked(
        self, process: asyncio.subprocess.Process, response: str, answer: str
    ) -> float:
        _allow_cpu_seconds(process.pid, self._reward.cpu_seconds)
        request = json.dumps({"response": response, "answer": answer})
        assert process.stdin  # A pipe, by the way it was started.
        process.stdin.write(request.encode() + b"\n")
        await process.stdin.drain()
        reward = (await self._reply(process)).get("reward")
        if not isinstance(reward, int | float) or not math.isfinite(reward):
            raise ValueError(f"it answered {reward!r:.80}")
        return float(reward)

    async def _reply(self, process: asyncio.subprocess.Process) -> dict[str, Any]:
        assert process.stdout
        line = await process.stdout.readline()
        if not line:
            raise OSError(f"it ended with {await process.wait()}")
        match json.loads(line):
            case {"error": said}:
                raise FunctionError(said)
            case dict(fields):
                return fields
        raise ValueError(f"it answered {line[:80]!r}")

    async def _started(self) -> asyncio.subprocess.Process:
        reward = self._reward
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "hetrl_runtime.reward.confinement.runner",
            reward.file, reward.function, str(reward.memory_bytes),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL, env=_environment(), cwd="/", start_new_session=True,
        )  # fmt: skip
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._reply(process)
        except BaseException:
            await _kill(process)
            raise
        return process

    async def _stop(self) -> None:
        process, self._process = self._process, None
        if process:
            await _kill(process)


def _environment() -> dict[str, str]:
    """Return what the code sees of the environment: no token, and one thread for each library."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
    return {**kept, **threads, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}


def _allow_cpu_seconds(pid: int, seconds: int) -> None:
    """Let a process use so many seconds more; then the kernel ends it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    used_seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    soft = math.ceil(used_seconds) + seconds
    resource.prlimit(pid, resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


async def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()
