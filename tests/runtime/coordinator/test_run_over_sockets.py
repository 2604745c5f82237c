"""Whole runs over real sockets: the coordinator's process in this one, clients beside it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from hetrl_core.launch import JobIdentity, Launch
from hetrl_runtime.data.left_out import LeftOutPrompt, LeftOutReason
from hetrl_runtime.transport.clients.coordinator_client import (
    WAIT_SECONDS,
    TrainerClient,
    WorkerClient,
)
from hetrl_runtime.transport.errors import Refused, RunEnded
from hetrl_runtime.wire.trajectory import FailedTrajectory
from hetrl_runtime.wire.values import (
    Ending,
    PromptLease,
    ResumePoint,
    StepReport,
)
from tests.runtime.coordinator.clients import DONE, a_worker, answer_everything, train
from tests.runtime.coordinators import a_coordinator
from tests.runtime.launches import a_launch
from tests.runtime.trajectories import a_trajectory

pytestmark = pytest.mark.slow


async def test_run_goes_from_registration_to_its_last_step(tmp_path: Path) -> None:
    launch = a_launch(tmp_path, steps=5)

    async with (
        a_coordinator(launch) as coordinator,
        # One worker alone may do all five steps before the other's first attempt to connect.
        WorkerClient(launch, process="rollout-0") as one,
        WorkerClient(launch, process="rollout-1") as other,
    ):
        workers = [
            asyncio.create_task(answer_everything(one, process="rollout-0", reward=1.0)),
            asyncio.create_task(answer_everything(other, process="rollout-1", reward=1.0)),
        ]
        steps = await asyncio.to_thread(train, launch, resume=ResumePoint(), until=5)
        delivered = sum(await asyncio.gather(*workers))

    assert await coordinator == DONE
    consumed = [identity for step in steps for identity in step]
    assert len(set(consumed)) == len(consumed) == 20 <= delivered
    state = Path(launch.state_path)
    assert json.loads((state / "result.json").read_text())["outcome"] == "Succeeded"
    lines = [json.loads(line) for line in (state / "steps.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5]
    assert all(sum(line["staleness"].values()) == 4 for line in lines)
    assert lines[-1]["metrics"] == {"loss": 0.5}
    samples = [json.loads(line) for line in (state / "samples.jsonl").read_text().splitlines()]
    assert len(samples) == 20
    assert json.loads((state / "progress.json").read_text())["step"] == "5"


async def test_worker_with_older_weights_must_ask_with_the_newer(tmp_path: Path) -> None:
    launch = a_launch(tmp_path, steps=5, max_staleness=1, global_batch_size=4)

    async with a_coordinator(launch):
        training = asyncio.create_task(
            asyncio.to_thread(train, launch, resume=ResumePoint(), until=1)
        )
        async with WorkerClient(launch, process="rollout-0") as client:
            leases = [lease async for lease in everything(client)]
            waiting = asyncio.create_task(client.lease(version=0, max_trajectories=1))
            for lease in leases:
                for identity in lease.ids:
                    await client.deliver(
                        a_trajectory(*identity, epoch=lease.epoch, process="rollout-0")
                    )
            await training
            # What version 0 may still be of use to is all here: waiting on would be in vain.
            assert await asyncio.wait_for(waiting, WAIT_SECONDS / 2) == ()
            assert await client.lease(version=1, max_trajectories=1)


async def everything(client: WorkerClient) -> AsyncIterator[PromptLease]:
    """Lease until nothing is left that version 0 may be of use to: two batches of four."""
    number = 0
    while number < 8:
        for lease in await client.lease(version=0, max_trajectories=8):
            number += len(lease.ids)
            yield lease


async def test_process_of_another_job_is_refused(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)
    stranger = replace(launch, job=JobIdentity(namespace="default", name="sums", uid="other"))

    async with a_coordinator(launch):
        with pytest.raises(Refused, match=r"runs job default/sums \(uid 0b1c\), not .*uid other"):
            async with WorkerClient(stranger, process="rollout-0"):
                pass


async def test_prompt_that_no_engine_can_take_ends_the_run(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)

    async def fail_everything() -> None:
        async with WorkerClient(launch, process="rollout-0") as client:
            with contextlib.suppress(RunEnded):
                while True:
                    for lease in await client.lease(version=0, max_trajectories=8):
                        for identity in lease.ids:
                            await client.deliver(
                                FailedTrajectory(
                                    group=identity.group,
                                    member=identity.member,
                                    epoch=lease.epoch,
                                    process="rollout-0",
                                    error="prompt has 700 tokens, the limit is 512",
                                )
                            )

    def wait_for_batch() -> None:
        with TrainerClient(launch, process="trainer-0") as client:
            client.register(ResumePoint())
            client.next_batch(version=0)

    async with a_coordinator(launch) as coordinator:
        worker = asyncio.create_task(fail_everything())
        with pytest.raises(RunEnded, match="prompt has 700 tokens"):
            await asyncio.to_thread(wait_for_batch)
        await worker
        ending = await coordinator

    assert ending
    assert ending.reason == "RolloutFailed"


async def test_run_without_workers_ends_and_names_the_missing(tmp_path: Path) -> None:
    launch = a_launch(tmp_path, startup_deadline_seconds=0.5)

    async with a_coordinator(launch) as coordinator:
        ending = await coordinator

    assert ending == Ending(
        reason="StartupDeadlineExceeded",
        message="the trainer and any rollout worker did not register within 0.5 s",
    )


async def test_malformed_line_ends_the_run_with_its_place(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)
    prompts = Path(launch.data.prompts)
    prompts.write_text(prompts.read_text() + '{"question": "What is 1?"}\n')

    async with a_coordinator(launch) as coordinator:
        ending = await coordinator

    assert ending.reason == "DataInvalid"
    assert ending.message.startswith(f"{prompts}:17: has no 'answer'; its fields are question:")


async def test_prompts_go_out_after_the_check_of_rows(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)
    may_end = asyncio.Event()

    async def check(_: Launch) -> AsyncIterator[LeftOutPrompt]:
        await may_end.wait()
        for index in range(15):
            reason = LeftOutReason.PROMPT_TOO_LONG
            yield LeftOutPrompt(index=index, line=index + 1, reason=reason, detail="548 tokens")

    def register_trainer() -> None:
        with TrainerClient(launch, process="trainer-0") as client:
            client.register(ResumePoint())

    async with a_coordinator(launch, row_check=check):
        await asyncio.to_thread(register_trainer)
        async with WorkerClient(launch, process="rollout-0") as client:
            leasing = asyncio.create_task(client.lease(version=0, max_trajectories=2))
            done, _ = await asyncio.wait([leasing], timeout=0.2)
            assert not done
            may_end.set()
            (lease,) = await leasing

    assert lease.question == "What is 15 + 1?"


async def test_check_that_leaves_no_row_ends_the_run(tmp_path: Path) -> None:
    async def check(launch: Launch) -> AsyncIterator[LeftOutPrompt]:
        for index in range(len(Path(launch.data.prompts).read_text().splitlines())):
            reason = LeftOutReason.PROMPT_TOO_LONG
            yield LeftOutPrompt(index=index, line=index + 1, reason=reason, detail="548 tokens")

    async with a_coordinator(a_launch(tmp_path), row_check=check) as coordinator:
        ending = await coordinator

    assert ending
    assert ending.reason == "DataInvalid"
    assert "16 of 16 prompts are longer than data.maxPromptTokens" in ending.message


async def test_trainer_may_end_the_run_with_a_reason(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)
    no_signal = Ending(reason="NoLearningSignal", message="all rewards of every group were 0")

    def one_step() -> None:
        with TrainerClient(launch, process="trainer-0") as client:
            client.register(ResumePoint())
            batch = client.next_batch(version=0)
            ids = [each.id for each in batch]
            client.commit(version=1, consumed=ids, report=StepReport(), ending=no_signal)

    async with a_coordinator(launch) as coordinator:
        worker = asyncio.create_task(a_worker(launch, process="rollout-0", reward=0.0))
        await asyncio.to_thread(one_step)
        await worker
        ending = await coordinator

    assert ending == no_signal
    assert not ending.succeeded


async def test_chat_of_the_data_reaches_the_worker(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)
    chat = [{"role": "system", "content": "Add."}, {"role": "user", "content": "1+1?"}]
    Path(launch.data.prompts).write_text(json.dumps({"question": chat, "answer": 2}) + "\n")

    async with a_coordinator(launch):
        await asyncio.to_thread(train, launch, resume=ResumePoint(), until=0)
        async with WorkerClient(launch, process="rollout-0") as worker, asyncio.timeout(60):
            while not (leases := await worker.lease(version=0, max_trajectories=1)):
                pass
    (lease,) = leases

    assert (lease.question, lease.answer) == ("1+1?", "2")
    assert json.loads(lease.messages) == chat
