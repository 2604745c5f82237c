"""A job's own reward code, asked from outside: what its answers are worth.

``restrictions`` says what its process gives up, and ``process`` asks and watches it. This module
sets a time limit, and replaces the process when it takes too long or dies.
"""

import asyncio
import logging
from typing import Self

from hetrl_core.job.spec import PythonReward
from hetrl_runtime.reward.confinement.process import START_SECONDS, ConfinedProcess, FunctionError
from hetrl_runtime.reward.one_line import one_line

logger = logging.getLogger(__name__)


class CodeError(ValueError):
    """The code cannot be used; the message names the file and says why."""


class ConfinedCode:
    """A client of the function of a file; use it as an async context manager."""

    def __init__(self, reward: PythonReward, *, private: str = "") -> None:
        """Prepare to ask.

        Args:
            reward: the function, and what one call may take.
            private: a folder that the code may not read, such as that of the worker's key, even
                where it lies below the folder of the code; empty if there is none.
        """
        self._reward = reward
        self._private = private
        self._process: ConfinedProcess | None = None
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Load the code.

        Raises:
            CodeError: it is not there, cannot be loaded, or this machine cannot confine it.
            OSError: its process does not start or answer.
        """
        file = self._reward.file
        try:
            self._process = await ConfinedProcess.started(self._reward, private=self._private)
        except FunctionError as error:
            raise CodeError(f"data.python: {file} cannot be used: {error}") from error
        except (OSError, ValueError) as error:
            reason = one_line(error) or f"no answer within {START_SECONDS:g} s"
            raise OSError(f"data.python: {file} does not start: {reason}") from error
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def score(self, response: str, answer: str) -> float:
        """Return what the function makes of a response and the reference answer.

        Zero where it raises, takes too long or too much memory, or returns no finite number; the
        log says so.
        """
        async with self._turn:
            try:
                process = await self._running()
                async with asyncio.timeout(self._reward.timeout_seconds):
                    return await process.asked(response, answer)
            except FunctionError as error:
                reason = str(error)
            except TimeoutError:
                reason = f"takes more than {self._reward.timeout_seconds:g} s"
                await self._stop()
            except (OSError, ValueError, RecursionError, OverflowError) as error:
                reason = one_line(f"its process is lost: {error}")
                await self._stop()
        logger.warning("data.python: a response is worth 0: %s: %.80r", reason, response)
        return 0.0

    async def _running(self) -> ConfinedProcess:
        """Return a process that can be asked: one that ended or is used up is replaced."""
        cpu_seconds = self._reward.cpu_seconds
        if self._process and not self._process.may_use(cpu_seconds):
            await self._stop()
        if self._process is None:
            self._process = await ConfinedProcess.started(self._reward, private=self._private)
            if not self._process.may_use(cpu_seconds):
                raise OSError("the worker's own limit of processor time leaves it none")
        return self._process

    async def _stop(self) -> None:
        process, self._process = self._process, None
        if process:
            await process.close()
