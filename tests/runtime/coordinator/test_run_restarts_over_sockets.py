"""Restarts of a run's coordinator and trainer, over real sockets."""

import asyncio
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hetrl_core.launch import Launch
from hetrl_runtime.transport.clients.coordinator_client import (
    TrainerClient,
)
from hetrl_runtime.transport.errors import RunEnded
from hetrl_runtime.wire.values import (
    ResumePoint,
    StepReport,
)
from tests.runtime.coordinator.clients import DONE, a_worker, train
from tests.runtime.coordinators import a_coordinator
from tests.runtime.launches import a_launch

pytestmark = pytest.mark.slow


@dataclass
class Pause:
    """Between two of four steps, for a fault of the coordinator."""

    begun: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)

    def take(self, version: int) -> None:
        if version == 2:
            self.begun.set()
            assert self.over.wait(30)


def nothing(version: int) -> None:
    """Take no pause."""


def four_steps(
    launch: Launch,
    *,
    before_batch: Callable[[int], None] = nothing,
    before_commit: Callable[[int], None] = nothing,
) -> list[str]:
    consumed = []
    with TrainerClient(launch, process="trainer-0") as client:
        client.register(ResumePoint())
        for version in range(4):
            before_batch(version)
            ids = [each.id for each in client.next_batch(version=version)]
            before_commit(version)
            client.commit(version=version + 1, consumed=ids, report=StepReport())
            consumed += ids
        client.conclude(version=4, ending=DONE)
    return [str(identity) for identity in consumed]


async def test_restarted_coordinator_resumes_where_it_was(tmp_path: Path) -> None:
    launch = a_launch(tmp_path, steps=4)
    pause = Pause()

    worker = asyncio.create_task(a_worker(launch, process="rollout-0"))
    training = asyncio.create_task(asyncio.to_thread(four_steps, launch, before_batch=pause.take))
    async with a_coordinator(launch):
        assert await asyncio.to_thread(pause.begun.wait, 30)
    async with a_coordinator(launch) as coordinator:
        pause.over.set()
        consumed = await training
        await worker
        ending = await coordinator

    assert ending
    assert ending.succeeded
    assert len(set(consumed)) == len(consumed) == 16


async def test_restarted_trainer_takes_the_run_back_to_its_checkpoint(tmp_path: Path) -> None:
    launch = a_launch(tmp_path, steps=4)

    async with a_coordinator(launch) as coordinator:
        worker = asyncio.create_task(a_worker(launch, process="rollout-0"))
        first = await asyncio.to_thread(train, launch, resume=ResumePoint(), until=3)
        again = await asyncio.to_thread(train, launch, resume=ResumePoint(), until=4)
        await worker
        ending = await coordinator

    assert ending
    assert ending.succeeded
    # The lost history's groups are generated and trained again, each once.
    consumed = [identity for step in again for identity in step]
    assert len(set(consumed)) == len(consumed) == 16
    assert {each for step in first for each in step} <= set(consumed)


async def test_trainer_that_is_further_than_a_damaged_journal_is_followed(tmp_path: Path) -> None:
    launch = a_launch(tmp_path, steps=4)
    pause = Pause()

    worker = asyncio.create_task(a_worker(launch, process="rollout-0"))
    training = asyncio.create_task(asyncio.to_thread(four_steps, launch, before_commit=pause.take))
    async with a_coordinator(launch):
        assert await asyncio.to_thread(pause.begun.wait, 30)
    (journal,) = Path(launch.state_path).glob("journal-*")
    # Of two versions that were committed, the disk has lost one or both.
    os.truncate(journal, journal.stat().st_size // 2)
    async with a_coordinator(launch) as coordinator:
        pause.over.set()
        consumed = await training
        await worker
        ending = await coordinator

    assert ending == DONE
    assert len(set(consumed)) == len(consumed) == 16


async def test_restarted_coordinator_tells_late_workers_of_the_end(
    tmp_path: Path,
) -> None:
    launch = a_launch(tmp_path, steps=1)
    async with a_coordinator(launch) as coordinator:
        worker = asyncio.create_task(a_worker(launch, process="rollout-0"))
        await asyncio.to_thread(train, launch, resume=ResumePoint(), until=1)
        await worker
        await coordinator

    async with a_coordinator(launch) as coordinator:
        # It might have left at once: its journal names no process.
        await asyncio.sleep(1.0)
        with pytest.raises(RunEnded, match="steps are done"):
            await asyncio.to_thread(train, launch, resume=ResumePoint(), until=1)

        assert await coordinator == DONE
