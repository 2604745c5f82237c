"""The work queue, on a real event loop."""

import asyncio
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from hetrl_operator.http.metrics import Workqueue
from hetrl_operator.reconcile.workqueue import WorkQueue


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
async def queue(registry: CollectorRegistry) -> WorkQueue[str]:
    return WorkQueue(metrics=Workqueue(registry), base_backoff_seconds=0.01)


async def take(queue: WorkQueue[str]) -> str:
    async with asyncio.timeout(30):
        return await queue.get()


async def test_key_waits_once_however_often_it_is_added(queue: WorkQueue[str]) -> None:
    for _ in range(5):
        queue.add("a")

    assert await take(queue) == "a"
    assert len(queue) == 0


async def test_key_added_while_it_is_worked_on_runs_once_more(queue: WorkQueue[str]) -> None:
    queue.add("a")
    key = await take(queue)
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0

    queue.done(key)

    assert await take(queue) == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_worker_waits_until_there_is_work(queue: WorkQueue[str]) -> None:
    waiting = asyncio.create_task(take(queue))
    await asyncio.sleep(0)
    assert not waiting.done()

    queue.add("a")

    assert await waiting == "a"


async def test_earliest_of_several_delays_counts(queue: WorkQueue[str]) -> None:
    queue.add_after("a", 3600)
    queue.add_after("a", 0.01)
    queue.add_after("a", 7200)

    assert await take(queue) == "a"


async def test_failures_wait_longer_each_time_until_one_goes_well(queue: WorkQueue[str]) -> None:
    delays = [queue.retry("a") for _ in range(4)]
    queue.forget("a")

    assert delays == [0.01, 0.02, 0.04, 0.08]
    assert queue.retry("a") == 0.01


async def test_wait_of_a_failing_key_has_a_limit(queue: WorkQueue[str]) -> None:
    delays = [queue.retry("a") for _ in range(60)]

    assert delays[-1] == queue.max_backoff_seconds


async def test_dropped_key_does_not_come_back(queue: WorkQueue[str]) -> None:
    queue.add_after("a", 0.01)

    queue.drop("a")
    queue.add_after("b", 0.05)

    assert await take(queue) == "b"
    assert len(queue) == 0


async def test_prometheus_sees_depth_adds_and_retries(
    queue: WorkQueue[str], registry: CollectorRegistry
) -> None:
    def value(name: str, **labels: Any) -> float | None:
        return registry.get_sample_value(f"hetrl_operator_workqueue_{name}", labels)

    queue.add("a")
    queue.add("b")
    queue.retry("c", at_least_seconds=3600)
    assert (value("depth"), value("adds_total"), value("retries_total")) == (2, 2, 1)

    queue.done(await take(queue))

    assert value("depth") == 1
    assert value("work_duration_seconds_count") == 1
    queue.drop("c")
