"""A queue of requests to a frozen model, first come, first served, in batches for one pass.

A pass takes as many tokens as it is meant for; requests that arrive meanwhile wait for the next.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

MAX_WAITING = 4096
"""Requests in a queue beyond which another worker should be asked."""


class Question(Protocol):
    """A request to a model."""

    @property
    def num_tokens(self) -> int:
        """Tokens that the model reads."""
        ...


AskedT = TypeVar("AskedT", bound=Question)
AskedT_contra = TypeVar("AskedT_contra", bound=Question, contravariant=True)
AnswerT = TypeVar("AnswerT")


class FrozenModel(Protocol[AskedT_contra, AnswerT]):
    """A model for inference only."""

    @property
    def max_tokens_per_pass(self) -> int:
        """Tokens that one pass computes most efficiently."""
        ...

    def look(self, questions: Sequence[AskedT_contra], /) -> list[AnswerT]:
        """Return the answer to each question; not thread-safe."""
        ...


class QueueFullError(Exception):
    """Too many wait already; the message says how many."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PendingRequest(Generic[AskedT, AnswerT]):
    """One question, and its answer to come."""

    question: AskedT
    answer: "asyncio.Future[AnswerT]"


class RequestQueue(Generic[AskedT, AnswerT]):
    """Pending requests, on one event loop."""

    def __init__(self, *, max_tokens: int) -> None:
        """``max_tokens`` is what one pass is meant for; one longer question still is a pass."""
        self._max_tokens = max_tokens
        self._waiting: deque[PendingRequest[AskedT, AnswerT]] = deque()
        self._has_some = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    async def ask(self, question: AskedT) -> AnswerT:
        """Queue a question; wait for its pass and return the answer.

        Raises:
            QueueFullError: too many wait already.
        """
        if len(self) >= MAX_WAITING:
            raise QueueFullError(f"{len(self)} questions wait already")
        answer: asyncio.Future[AnswerT] = asyncio.get_running_loop().create_future()
        request = PendingRequest(question=question, answer=answer)
        self._waiting.append(request)
        self._has_some.set()
        return await request.answer

    async def next(self) -> list[PendingRequest[AskedT, AnswerT]]:
        """Wait for requests; return those of the next pass that are not cancelled."""
        while True:
            await self._has_some.wait()
            if found := self._next():
                return found

    def _next(self) -> list[PendingRequest[AskedT, AnswerT]]:
        found: list[PendingRequest[AskedT, AnswerT]] = []
        num_tokens = 0
        while self._waiting:
            request = self._waiting[0]
            if not request.answer.done():
                num_tokens += request.question.num_tokens
                if found and num_tokens > self._max_tokens:
                    break
                found.append(request)
            self._waiting.popleft()
        if not self._waiting:
            self._has_some.clear()
        return found
