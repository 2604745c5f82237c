"""A frozen model that runs pass after pass over the requests of its queue, in a thread.

``request_queue`` orders the requests; ``service`` receives them over the wire.
"""

import asyncio
from collections.abc import Callable
from typing import Generic

from hetrl_runtime.inference.request_queue import AnswerT, AskedT, FrozenModel, RequestQueue


class ModelRunner(Generic[AskedT, AnswerT]):
    """A runner of one model over queued requests, on one event loop."""

    def __init__(self, model: FrozenModel[AskedT, AnswerT], *, note: Callable[[], None]) -> None:
        """Call ``note`` at the beginning and end of every pass."""
        self._model = model
        self.queue = RequestQueue[AskedT, AnswerT](max_tokens=model.max_tokens_per_pass)
        self._note = note
        self.is_looking = False
        self.seen_tokens = 0
        """Total of all passes."""

    # consumes: questions   waits for: a question   unblocks: its caller
    async def run(self) -> None:
        """Run passes over queued requests until cancelled."""
        while True:
            requests = await self.queue.next()
            answers = await self._look([each.question for each in requests])
            for request, answer in zip(requests, answers, strict=True):
                if not request.answer.done():
                    request.answer.set_result(answer)

    async def _look(self, questions: list[AskedT]) -> list[AnswerT]:
        """Run one pass, and note its beginning, its end and its tokens."""
        self._set_looking(is_looking=True)
        answers = await asyncio.to_thread(self._model.look, questions)
        self.seen_tokens += sum(each.num_tokens for each in questions)
        self._set_looking(is_looking=False)
        return answers

    def _set_looking(self, *, is_looking: bool) -> None:
        self.is_looking = is_looking
        self._note()
