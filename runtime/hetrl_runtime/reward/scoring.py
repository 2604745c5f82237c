"""Scoring of responses in a pool of processes, because verifiers are slow.

Parsing one answer as mathematics takes milliseconds of Python, which in this process would
keep the engine's thread from the interpreter; some answers would take forever. The verifier
decides what is right; ``reward.confinement`` runs code of a user's own.

What limits a judge is its processor time, so that a verdict does not depend on how busy the
machine is. The clock only ends a judge that hangs without computing.
"""

import asyncio
import json
import logging
import multiprocessing
import os
import resource
import signal
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Self

from pebble import ProcessExpired, ProcessPool

from hetrl_core.escape import one_line
from hetrl_core.job.reward import Reward, RewardPart
from hetrl_runtime.reward.confinement.code import num_judges
from hetrl_runtime.reward.error_text import described
from hetrl_runtime.reward.verdict import (
    Response,
    Unjudged,
    UnjudgedError,
    UnjudgedReason,
    Verdict,
)
from hetrl_runtime.reward.verifiers import Judge, judge_of

JUDGE_CPU_SECONDS = 5.0
"""Processor time that one response may take; then its judge is killed, and it is not judged.

Answers of MATH and GSM8K take a tenth of this at most."""

JUDGE_CLOCK_SECONDS = 600.0

_JUDGE_BYTES = 4 << 30
"""Of address space: a tower of powers would otherwise take the machine's memory in no time."""

_RULES = frozenset({Reward.MATH, Reward.EXACT, Reward.REGEX})
"""Rewards that depend on response and reference alone."""

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


class VerifierPool:
    """A pool of processes that run a job's verifier; use it as an async context manager."""

    def __init__(self, parts: Sequence[RewardPart], *, max_processes: int | None = None) -> None:
        """Choose the verifiers of some rewards.

        Raises:
            ValueError: there is none of that name, or it is no reward function.
        """
        for part in parts:
            judge_of(part)
        self._rules = {part.name for part in parts if part.reward in _RULES}
        self._first = parts[0].name
        self._pool = ProcessPool(
            max_workers=max_processes or num_judges(),
            context=multiprocessing.get_context("spawn"),
            initializer=_prepare,
            initargs=(tuple(parts),),
        )

    async def __aenter__(self) -> Self:
        # They start and import while the engine loads; the first reward does not wait for it.
        self._pool.schedule(_score, args=[self._first, "", "", "", "{}"])
        return self

    async def __aexit__(self, *_: object) -> None:
        self._pool.stop()  # type: ignore[no-untyped-call]
        await asyncio.to_thread(self._pool.join)

    async def score(self, response: Response, *, part: str = "") -> Verdict:
        """Return the verdict of one of the rewards; where there is none, the log says why.

        None is given within ``JUDGE_CPU_SECONDS`` of processor time and in memory.

        Args:
            response: what is judged.
            part: the name of the reward; empty: the first.
        """
        verdict = await self._asked(response, part or self._first)
        if isinstance(verdict, Unjudged):
            logger.warning("a response is not judged: %s: %.80r", verdict, response.text)
        return verdict

    async def _asked(self, response: Response, part: str) -> Verdict:
        context = ("", "{}") if part in self._rules else (response.prompt, _json(response.columns))
        asked: asyncio.Future[Verdict] = asyncio.wrap_future(
            self._pool.schedule(
                _score,
                args=[part, response.text, response.reference, *context],
                timeout=JUDGE_CLOCK_SECONDS,
            )
        )
        try:
            return await asked
        except TimeoutError:
            reason, detail = UnjudgedReason.TIME_LIMIT, f"no verdict for {JUDGE_CLOCK_SECONDS:g} s"
        except ProcessExpired as error:
            reason, detail = _end_of(error)
        except Exception as error:  # pickling may raise anything
            reason, detail = UnjudgedReason.PROCESS_LOST, one_line(described(error))
        return Unjudged(reason=reason, detail=detail)


def _end_of(error: ProcessExpired) -> tuple[UnjudgedReason, str]:
    if error.exitcode == -signal.SIGPROF:
        limit = f"takes more than {JUDGE_CPU_SECONDS:g} s of processor time"
        return UnjudgedReason.TIME_LIMIT, limit
    return UnjudgedReason.PROCESS_LOST, f"its judge died with exit code {error.exitcode}"


def _json(columns: Mapping[str, Any]) -> str:
    return json.dumps(dict(columns), default=str)


def _score(part: str, text: str, reference: str, prompt: str, columns: str) -> Verdict:
    """Judge a response, within the processor time that it may take.

    The kernel ends this process when the timer runs out, whatever it does and in whatever thread.
    """
    signal.setitimer(signal.ITIMER_PROF, JUDGE_CPU_SECONDS)
    try:
        return _reward(part, text, reference, prompt, columns)
    except UnjudgedError as error:
        return error.unjudged
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


@lru_cache(maxsize=65_536)  # members of a group often agree word for word
def _reward(part: str, text: str, reference: str, prompt: str, columns: str) -> float:
    """Return a reward. What is not judged is raised, and so is not remembered."""
    verdict = _judges[part](
        Response(text=text, reference=reference, prompt=prompt, columns=json.loads(columns))
    )
    if isinstance(verdict, Unjudged):
        raise UnjudgedError(verdict.reason, verdict.detail)
    return verdict


_judges: dict[str, Judge] = {}
"""By name, of this process, once it is prepared: sending the job's options along would cost more
than most judgements."""


def _prepare(parts: Sequence[RewardPart]) -> None:
    """Live as long as the worker does: a key press is for it, and its end is ours."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (_JUDGE_BYTES, _JUDGE_BYTES))
    threading.Thread(target=_end_with_parent, name="end-with-parent", daemon=True).start()
    # Before anything is limited: the first judgements load parsers, which takes a second.
    _judges.update({part.name: judge_of(part) for part in parts})
    for part in parts:
        if part.reward in _RULES:
            for response in _FIRST_RESPONSES:
                _judges[part.name](Response(text=response, reference="0.25"))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
