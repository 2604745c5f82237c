"""The clients against a real coordinator: lost workers, lost connections, lost histories."""

import asyncio
from pathlib import Path

import pytest

from hetrl_core.launch import Launch
from hetrl_core.task import Role
from hetrl_runtime.transport.channel import open_channel
from hetrl_runtime.transport.clients.coordinator_client import TrainerClient, WorkerClient
from hetrl_runtime.transport.errors import Refused
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.hetrl_pb2_grpc import CoordinatorStub
from hetrl_runtime.wire.trajectory import TrajectoryId
from hetrl_runtime.wire.values import Outcome, ProcessStatus, ResumePoint
from tests.runtime.coordinators import a_coordinator
from tests.runtime.launches import a_launch
from tests.runtime.trajectories import a_trajectory

pytestmark = pytest.mark.slow


def begin(launch: Launch) -> TrainerClient:
    """Register a trainer, so that prompts may be leased; the caller closes it."""
    client = TrainerClient(launch, process="trainer-0")
    client.__enter__()
    client.register(ResumePoint())
    return client


def end(client: TrainerClient) -> None:
    client.__exit__(None, None, None)


async def leased(client: WorkerClient, count: int) -> list[TrajectoryId]:
    """Lease trajectories until there are ``count``."""
    found: list[TrajectoryId] = []
    while len(found) < count:
        leases = await client.lease(version=0, max_trajectories=count - len(found))
        found += [identity for lease in leases for identity in lease.ids]
    return found


async def deliver(client: WorkerClient, identity: TrajectoryId, *, epoch: int) -> Outcome:
    process = "rollout-0"
    return await client.deliver(
        a_trajectory(*identity, versions=(0,), epoch=epoch, process=process)
    )


async def test_prompts_of_a_worker_that_died_go_to_another(tmp_path: Path) -> None:
    launch = a_launch(tmp_path, max_staleness=0)
    async with (
        a_coordinator(launch, lease_seconds=0.5),
        open_channel(launch.coordinator, None, program=Role.COORDINATOR) as channel,
    ):
        trainer = await asyncio.to_thread(begin, launch)
        mortal = CoordinatorStub(channel)
        epoch = await register_raw(mortal, launch)
        lost = await mortal.Lease(
            pb.LeaseRequest(epoch=epoch, process="mortal", max_trajectories=9, wait_seconds=5)
        )
        assert sum(len(lease.members) for lease in lost.leases) == 4

        async with WorkerClient(launch, process="rollout-0") as heir:
            for identity in await leased(heir, 4):
                assert await deliver(heir, identity, epoch=epoch) is Outcome.ACCEPTED
            batch = await asyncio.to_thread(trainer.next_batch, version=0)
            await asyncio.to_thread(end, trainer)

    assert {each.id for each in batch} == {TrajectoryId(g, m) for g in (0, 1) for m in (0, 1)}


async def register_raw(stub: CoordinatorStub, launch: Launch) -> int:
    """Register a worker that will send no heartbeats."""
    job = pb.JobIdentity(namespace=launch.job.namespace, name=launch.job.name, uid=launch.job.uid)
    reply = await stub.Register(
        pb.RegisterRequest(job=job, process="mortal", role="rollout", instance="first")
    )
    return int(reply.epoch)


async def test_unacknowledged_delivery_is_sent_to_a_restarted_coordinator(
    tmp_path: Path,
) -> None:
    launch = a_launch(tmp_path)
    async with a_coordinator(launch):
        trainer = await asyncio.to_thread(begin, launch)
        worker = await WorkerClient(launch, process="rollout-0").__aenter__()
        early, late = await leased(worker, 2)
        epoch = worker.registration.epoch
        assert await deliver(worker, early, epoch=epoch) is Outcome.ACCEPTED

    delivery = asyncio.create_task(deliver(worker, late, epoch=epoch))
    repeated = asyncio.create_task(deliver(worker, early, epoch=epoch))
    await asyncio.wait({delivery, repeated}, timeout=0.3)
    assert not delivery.done()

    async with a_coordinator(launch):
        assert await delivery is Outcome.ACCEPTED
        assert await repeated is Outcome.DUPLICATE
        await worker.__aexit__(None, None, None)
        await asyncio.to_thread(end, trainer)


async def test_new_start_of_the_trainer_fences_work_in_flight(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)
    async with a_coordinator(launch):
        first = await asyncio.to_thread(begin, launch)
        async with WorkerClient(launch, process="rollout-0") as worker:
            identity = (await leased(worker, 1))[0]
            epoch = worker.registration.epoch
            assert worker.wants(identity)

            second = await asyncio.to_thread(begin, launch)

            assert await worker.lease(version=0, max_trajectories=1) == ()
            assert worker.registration.epoch > epoch
            assert not worker.wants(identity)
            assert await deliver(worker, identity, epoch=epoch) is Outcome.FENCED
            assert await leased(worker, 1) == [identity]
        await asyncio.to_thread(end, first)
        await asyncio.to_thread(end, second)


async def test_work_of_two_epochs_gets_its_own_answer_each(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)
    async with a_coordinator(launch):
        first = await asyncio.to_thread(begin, launch)
        async with WorkerClient(launch, process="rollout-0") as worker:
            identity = (await leased(worker, 1))[0]
            old = worker.registration.epoch
            second = await asyncio.to_thread(begin, launch)
            while worker.registration.epoch == old:
                await worker.lease(version=0, max_trajectories=1)
            assert await leased(worker, 1) == [identity]

            answers = await asyncio.gather(
                deliver(worker, identity, epoch=old),
                deliver(worker, identity, epoch=worker.registration.epoch),
            )

            assert answers == [Outcome.FENCED, Outcome.ACCEPTED]
            assert not worker.wants(identity)
        await asyncio.to_thread(end, first)
        await asyncio.to_thread(end, second)


async def test_batch_of_another_version_is_refused_with_reason(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)
    async with a_coordinator(launch):
        trainer = await asyncio.to_thread(begin, launch)

        with pytest.raises(Refused, match="version 3 was asked for, but version 0 is being"):
            await asyncio.to_thread(trainer.next_batch, version=3)

        await asyncio.to_thread(end, trainer)


async def test_progress_is_open_to_anyone(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)
    async with (
        a_coordinator(launch),
        open_channel(launch.coordinator, None, program=Role.COORDINATOR) as channel,
    ):
        stub = CoordinatorStub(channel)
        before = await stub.GetProgress(pb.ProgressRequest(), wait_for_ready=True)
        trainer = await asyncio.to_thread(begin, launch)
        async with WorkerClient(launch, process="rollout-0") as worker:
            worker.report(ProcessStatus(version=0, running=1))
            await leased(worker, 3)
            during = await stub.GetProgress(pb.ProgressRequest())
        await asyncio.to_thread(end, trainer)

    assert before.waiting_for == "the trainer is not here yet"
    assert (during.total_steps, during.running) == (3, 3)
    assert [each.process for each in during.processes] == ["rollout-0", "trainer-0"]
