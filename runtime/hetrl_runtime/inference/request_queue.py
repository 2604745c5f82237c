"""What waits for a frozen model: in the order in which it came, a pass at a time.

A pass takes as much as it is meant for, and what comes while it runs waits for the next. Looking
is the model's.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

MAX_WAITING = 4096
"""Beyond this a worker is so far behind that another should be asked."""


class Question(Protocol):
    """What a model is asked about."""

    @property
    def num_tokens(self) -> int:
        """Tokens that it looks at."""
        ...


AskedT = TypeVar("AskedT", bound=Question)
AskedT_contra = TypeVar("AskedT_contra", bound=Question, contravariant=True)
AnswerT = TypeVar("AnswerT")


class FrozenModel(Protocol[AskedT_contra, AnswerT]):
    """A model that is asked and never trained."""

    @property
    def max_tokens_per_pass(self) -> int:
        """Tokens that are best looked at together."""
        ...

    def look(self, questions: Sequence[AskedT_contra], /) -> list[AnswerT]:
        """Return what it thinks of each; not from two threads at once."""
        ...


class QueueFullError(Exception):
    """Too many wait already; the message says how many."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PendingRequest(Generic[AskedT, AnswerT]):
    """One question, and its answer to come."""

    question: AskedT
    answer: "asyncio.Future[AnswerT]"


class RequestQueue(Generic[AskedT, AnswerT]):
    """Who waits, on one event loop."""

    def __init__(self, *, max_tokens: int) -> None:
        """``max_tokens`` is what one pass is meant for; one longer question still is a pass."""
        self._max_tokens = max_tokens
        self._waiting: deque[PendingRequest[AskedT, AnswerT]] = deque()
        self._has_some = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    async def ask(self, question: AskedT) -> AnswerT:
        """Wait for a question's turn; return the answer.

        Raises:
            QueueFullError: too many wait already.
        """
        if len(self) >= MAX_WAITING:
            raise QueueFullError(f"{len(self)} questions wait already")
        answer: asyncio.Future[AnswerT] = asyncio.get_running_loop().create_future()
        turn = PendingRequest(question=question, answer=answer)
        self._waiting.append(turn)
        self._has_some.set()
        return await turn.answer

    async def next(self) -> list[PendingRequest[AskedT, AnswerT]]:
        """Wait for somebody; return those that the next pass is for, who still want to know."""
        while True:
            await self._has_some.wait()
            if found := self._next():
                return found

    def _next(self) -> list[PendingRequest[AskedT, AnswerT]]:
        found: list[PendingRequest[AskedT, AnswerT]] = []
        num_tokens = 0
        while self._waiting:
            turn = self._waiting[0]
            if not turn.answer.done():
                num_tokens += turn.question.num_tokens
                if found and num_tokens > self._max_tokens:
                    break
                found.append(turn)
            self._waiting.popleft()
        if not self._waiting:
            self._has_some.clear()
        return found
