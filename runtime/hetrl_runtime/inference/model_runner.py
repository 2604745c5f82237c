"""A model and those who wait for it: pass after pass, in a thread.

Whose turn it is, is ``request_queue``'; what is asked over the wire, ``service``'s.
"""

import asyncio
from collections.abc import Callable
from typing import Generic

from hetrl_runtime.inference.request_queue import AnswerT, AskedT, FrozenModel, RequestQueue


class ModelRunner(Generic[AskedT, AnswerT]):
    """Where one model is asked, on one event loop."""

    def __init__(self, model: FrozenModel[AskedT, AnswerT], *, note: Callable[[], None]) -> None:
        """``note`` is called when the model begins to look, and when it has looked."""
        self._model = model
        self._queue = RequestQueue[AskedT, AnswerT](max_tokens=model.max_tokens_per_pass)
        self._note = note
        self.is_looking = False
        self.seen_tokens = 0
        """Since the beginning."""

    @property
    def num_waiting(self) -> int:
        """Questions whose turn is to come."""
        return len(self._queue)

    async def ask(self, question: AskedT) -> AnswerT:
        """Wait for a question's turn; return the answer.

        Raises:
            QueueFullError: too many wait already.
        """
        return await self._queue.ask(question)

    # consumes: questions   waits for: somebody to ask   unblocks: those who asked
    async def run(self) -> None:
        """Let the model look at what comes, for ever."""
        while True:
            turns = await self._queue.next()
            self._looks(is_looking=True)
            found = await asyncio.to_thread(self._model.look, [each.question for each in turns])
            for turn, answer in zip(turns, found, strict=True):
                if not turn.answer.done():
                    turn.answer.set_result(answer)
            self.seen_tokens += sum(each.question.num_tokens for each in turns)
            self._looks(is_looking=False)

    def _looks(self, *, is_looking: bool) -> None:
        self.is_looking = is_looking
        self._note()
