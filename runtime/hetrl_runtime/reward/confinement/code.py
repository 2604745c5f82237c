"""A job's own reward code, asked from outside for its verdicts.

``restrictions`` says what its processes give up, and ``process`` asks and watches one. This module
keeps a pool of them, and replaces one that takes too long or dies.
"""

import asyncio
import contextlib
import logging
import os
from typing import Self

from hetrl_core.escape import one_line
from hetrl_core.job.reward import PythonReward
from hetrl_runtime.reward.confinement.process import (
    START_SECONDS,
    ConfinedProcess,
    CpuTimeError,
    FunctionError,
)
from hetrl_runtime.reward.verdict import Response, Unjudged, UnjudgedReason, Verdict

MAX_JUDGES = 8

logger = logging.getLogger(__name__)


def num_judges() -> int:
    """Return how many processes of rewards may compute at once: one core is the engine's."""
    return max(1, min(MAX_JUDGES, len(os.sched_getaffinity(0)) - 1))


class CodeError(ValueError):
    """The code cannot be used; the message names the file and says why."""


class ConfinedCode:
    """A pool of processes with the function of a file; use it as an async context manager.

    The first process starts with the pool, the others when several responses wait at once.
    """

    def __init__(
        self, reward: PythonReward, *, private: str = "", max_processes: int | None = None
    ) -> None:
        """Prepare to ask.

        Args:
            reward: the function, and what one call may take.
            private: a folder that the code may not read, such as that of the worker's key, even
                where it lies below the folder of the code; empty if there is none.
            max_processes: the most at a time; None: one for each core but one.
        """
        self._reward = reward
        self._private = private
        self._processes: list[ConfinedProcess] = []
        """Those that are idle, the one used last at the end."""

        self._turns = asyncio.Semaphore(max_processes or num_judges())

    async def __aenter__(self) -> Self:
        """Load the code.

        Raises:
            CodeError: it is not there, is no reward function, or this machine cannot confine it.
            OSError: its process does not start or answer.
        """
        file = self._reward.file
        try:
            self._processes.append(await self._started())
        except FunctionError as error:
            raise CodeError(f"data.python: {file} cannot be used: {error}") from error
        except (OSError, ValueError) as error:
            reason = one_line(error) or f"no answer within {START_SECONDS:g} s"
            raise OSError(f"data.python: {file} does not start: {reason}") from error
        return self

    async def __aexit__(self, *_: object) -> None:
        while self._processes:
            await self._processes.pop().close()

    async def score(self, response: Response) -> Verdict:
        """Return what the function makes of a response, or why there is no reward; it is logged."""
        async with self._turns:
            verdict = await self._asked(response)
        if isinstance(verdict, Unjudged):
            logger.warning(
                "data.python: a response is not judged: %s: %.80r", verdict, response.text
            )
        return verdict

    async def _asked(self, response: Response) -> Verdict:
        process = None
        try:
            process = await self._idle()
            async with asyncio.timeout(self._reward.timeout_seconds):
                verdict = await process.asked(response)
        except BaseException as error:
            # Its answer is lost, and would be taken for the next one's.
            if process:
                await process.close()
            return self._lost(error)
        self._processes.append(process)
        return verdict

    def _lost(self, error: BaseException) -> Unjudged:
        match error:
            case CpuTimeError():
                reason, detail = UnjudgedReason.TIME_LIMIT, str(error)
            case TimeoutError():
                seconds = f"{self._reward.timeout_seconds:g} s"
                reason, detail = (
                    UnjudgedReason.TIME_LIMIT,
                    f"takes more than {seconds} by the clock",
                )
            case OSError() | ValueError() | RecursionError() | OverflowError():
                reason, detail = UnjudgedReason.PROCESS_LOST, one_line(error)
            case _:
                raise error
        return Unjudged(reason=reason, detail=detail)

    async def _idle(self) -> ConfinedProcess:
        """Return a process that can be asked: those that ended or are used up are replaced."""
        cpu_seconds = self._reward.cpu_seconds
        while self._processes:
            process = self._processes.pop()
            # It may have ended in this moment, which says nothing about the response.
            with contextlib.suppress(OSError):
                if process.may_use(cpu_seconds):
                    return process
            await process.close()
        process = await self._started()
        if not process.may_use(cpu_seconds):
            await process.close()
            raise OSError("the worker's own limit of processor time leaves it none")
        return process

    async def _started(self) -> ConfinedProcess:
        return await ConfinedProcess.started(self._reward, private=self._private)
