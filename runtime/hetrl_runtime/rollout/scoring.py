"""Scoring responses beside the engine: in a process of its own, for verifiers are slow.

Parsing one answer as mathematics takes milliseconds of Python, which in this process would
keep the engine's thread from the interpreter. What is right is the verifier's business.
"""

import asyncio
import multiprocessing
import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from types import TracebackType
from typing import Self

from hetrl_runtime.reward.verifiers import verifier


class Scorer:
    """Asks one verifier, by its name in the job; use it as an async context manager."""

    def __init__(self, reward: str) -> None:
        """Choose the verifier.

        Raises:
            ValueError: there is none of that name.
        """
        verifier(reward)
        self._reward = reward
        self._pool = ProcessPoolExecutor(
            max_workers=1,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_follow_parent,
        )

    async def __aenter__(self) -> Self:
        # It starts and imports while the engine loads; the first reward does not wait for it.
        self._pool.submit(verifier, self._reward)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)

    async def score(self, response: str, answer: str) -> float:
        """Return the reward of a response to a prompt with this reference answer."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, _score, self._reward, response, answer)


@lru_cache(maxsize=65_536)  # members of a group often agree word for word
def _score(reward: str, response: str, answer: str) -> float:
    return verifier(reward)(response, answer)


def _follow_parent() -> None:
    """Live as long as the worker does: its signals are for it, and its end is ours."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="end-with-parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
