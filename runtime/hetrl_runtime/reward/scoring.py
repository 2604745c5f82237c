"""Scoring of responses in a process of its own, because verifiers are slow.

Parsing one answer as mathematics takes milliseconds of Python, which in this process would
keep the engine's thread from the interpreter; some answers would take forever. The verifier
decides what is right; ``reward.confinement`` runs code of a user's own.
"""

import asyncio
import logging
import multiprocessing
import os
import resource
import signal
import threading
from functools import lru_cache
from typing import Self

from pebble import ProcessExpired, ProcessPool

from hetrl_core.job.spec import DataSpec
from hetrl_runtime.reward.confinement.code import ConfinedCode
from hetrl_runtime.reward.one_line import described, one_line
from hetrl_runtime.reward.verifiers import Verifier, verifier_of

SCORING_SECONDS = 2.0
"""Longest that one response is judged; then its judge is killed, and it is worth nothing."""

_JUDGE_BYTES = 4 << 30
"""Of address space: a tower of powers would otherwise take the machine's memory in no time."""

_FIRST_RESPONSES = (
    "1/2",
    r"\boxed{\frac{1}{2}}",
    r"$2x + \sqrt{3} y$",
    r"\boxed{\text{yes}}",
    r"\boxed{\left(1, \begin{pmatrix} x \\ 2 \end{pmatrix}\right]}",
    r"\boxed{x < 3\%}",
)
"""Each leads a judge of mathematics into parts of its libraries that load when they are needed."""

logger = logging.getLogger(__name__)


def scorer_of(data: DataSpec, *, private: str = "") -> "VerifierPool | ConfinedCode":
    """Return who scores a job's responses; code of the job may not read the folder ``private``.

    Raises:
        ValueError: there is no verifier of that name.
    """
    return ConfinedCode(data.python, private=private) if data.python else VerifierPool(data)


class VerifierPool:
    """A pool of processes that run a job's verifier; use it as an async context manager."""

    def __init__(self, data: DataSpec) -> None:
        """Choose the verifier.

        Raises:
            ValueError: there is none of that name.
        """
        verifier_of(data)
        self._pool = ProcessPool(
            max_workers=1,
            context=multiprocessing.get_context("spawn"),
            initializer=_prepare,
            initargs=(data,),
        )

    async def __aenter__(self) -> Self:
        # It starts and imports while the engine loads; the first reward does not wait for it.
        self._pool.schedule(_score, args=["", ""])
        return self

    async def __aexit__(self, *_: object) -> None:
        self._pool.stop()  # type: ignore[no-untyped-call]
        await asyncio.to_thread(self._pool.join)

    async def score(self, response: str, answer: str) -> float:
        """Return the reward of a response to a prompt with this reference answer.

        Zero where it cannot be judged within ``SCORING_SECONDS`` and in memory; the log says so.
        """
        asked: asyncio.Future[float] = asyncio.wrap_future(
            self._pool.schedule(_score, args=[response, answer], timeout=SCORING_SECONDS)
        )
        try:
            return await asked
        except TimeoutError:
            reason = f"takes more than {SCORING_SECONDS:g} s"
        except ProcessExpired as error:
            reason = f"its judge died with exit code {error.exitcode}"
        except (MemoryError, RecursionError, ArithmeticError, ValueError, TypeError) as error:
            reason = one_line(described(error))
        logger.warning("a response cannot be judged and is worth 0: %s: %.80r", reason, response)
        return 0.0


@lru_cache(maxsize=65_536)  # members of a group often agree word for word
def _score(response: str, answer: str) -> float:
    return _judge[0](response, answer)


_judge: list[Verifier] = []
"""Of this process, once it is prepared: sending the job's options along would cost more than
most judgements."""


def _prepare(data: DataSpec) -> None:
    """Live as long as the worker does: a key press is for it, and its end is ours."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (_JUDGE_BYTES, _JUDGE_BYTES))
    threading.Thread(target=_end_with_parent, name="end-with-parent", daemon=True).start()
    # Before anything is timed: the first judgements load parsers, which takes as long as they may.
    _judge[:] = [verifier_of(data)]
    for response in _FIRST_RESPONSES:
        _judge[0](response, "0.25")


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
