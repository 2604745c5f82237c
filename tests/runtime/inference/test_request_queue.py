"""The queue of requests to a frozen model."""

import asyncio

import numpy as np
import pytest

from hetrl_runtime.inference import request_queue as module
from hetrl_runtime.inference.reference import Response
from hetrl_runtime.inference.request_queue import QueueFullError, RequestQueue
from hetrl_runtime.wire.trajectory import LogProbs


def a_response(num_tokens: int) -> Response:
    return Response(np.arange(1, dtype=np.int32), np.arange(num_tokens - 1, dtype=np.int32))


async def those_who_ask(
    queue: RequestQueue[Response, LogProbs], *sizes: int
) -> "list[asyncio.Task[LogProbs]]":
    tasks = [asyncio.create_task(queue.ask(a_response(size))) for size in sizes]
    await asyncio.sleep(0)
    return tasks


async def end(tasks: "list[asyncio.Task[LogProbs]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_pass_takes_its_budget_in_request_order() -> None:
    queue = RequestQueue[Response, LogProbs](max_tokens=10)
    tasks = await those_who_ask(queue, 4, 5, 3, 20, 2)

    passes = [[turn.question.num_tokens for turn in await queue.next()] for _ in range(4)]

    assert passes == [[4, 5], [3], [20], [2]]
    await end(tasks)


async def test_requests_get_their_own_answers() -> None:
    queue = RequestQueue[Response, LogProbs](max_tokens=100)
    tasks = await those_who_ask(queue, 4, 5)

    for turn in await queue.next():
        turn.answer.set_result(np.full(1, turn.question.num_tokens, np.float32))

    assert [found.tolist() for found in await asyncio.gather(*tasks)] == [[4.0], [5.0]]


async def test_cancelled_request_is_skipped() -> None:
    queue = RequestQueue[Response, LogProbs](max_tokens=8)
    tasks = await those_who_ask(queue, 4, 5, 3)
    await end(tasks[:1])

    assert [turn.question.num_tokens for turn in await queue.next()] == [5, 3]
    await end(tasks)


async def test_queue_is_idle_until_a_request() -> None:
    queue = RequestQueue[Response, LogProbs](max_tokens=8)
    (gone,) = await those_who_ask(queue, 4)
    await end([gone])
    waiting = asyncio.create_task(queue.next())
    await asyncio.sleep(0.01)
    assert not waiting.done()

    tasks = await those_who_ask(queue, 2)

    (turn,) = await waiting
    assert turn.question.num_tokens == 2
    await end(tasks)


async def test_full_queue_refuses_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 2)
    queue = RequestQueue[Response, LogProbs](max_tokens=8)
    tasks = await those_who_ask(queue, 2, 2)

    with pytest.raises(QueueFullError, match="2 questions wait already"):
        await queue.ask(a_response(2))
    await end(tasks)
