"""Workers and trainers without models, over real sockets."""

import asyncio
import contextlib

from hetrl_core.launch import Launch
from hetrl_runtime.transport.clients.coordinator_client import (
    TrainerClient,
    WorkerClient,
)
from hetrl_runtime.transport.errors import RunEnded
from hetrl_runtime.wire.values import (
    ALL_STEPS_DONE,
    Ending,
    Outcome,
    ProcessStatus,
    ResumePoint,
    StepReport,
)
from tests.runtime.trajectories import a_trajectory

DONE = Ending(reason=ALL_STEPS_DONE, message="5 steps are done")


async def a_worker(launch: Launch, *, process: str, reward: float = 1.0) -> int:
    """A rollout worker without a model: follows announcements, answers every prompt at once."""
    try:
        async with WorkerClient(launch, process=process) as client:
            return await answer_everything(client, process=process, reward=reward)
    except RunEnded:
        # The others were quicker than this one's registration.
        return 0


async def answer_everything(client: WorkerClient, *, process: str, reward: float) -> int:
    delivered = 0
    version = 0

    async def follow() -> None:
        nonlocal version
        async for news in client.announcements():
            version = news.version

    following = asyncio.create_task(follow())
    with contextlib.suppress(RunEnded):
        while not following.done():
            client.report(ProcessStatus(version=version, generated_tokens=delivered * 3))
            for lease in await client.lease(version=version, max_trajectories=3):
                for identity in lease.ids:
                    trajectory = a_trajectory(
                        *identity,
                        versions=(version, version),
                        epoch=lease.epoch,
                        process=process,
                        reward=reward,
                    )
                    if await client.deliver(trajectory) is Outcome.ACCEPTED:
                        delivered += 1
    await following
    return delivered


def train(launch: Launch, *, resume: ResumePoint, until: int) -> list[list[str]]:
    """A trainer without a model; returns the ids that each step consumed."""
    steps = []
    with TrainerClient(launch, process="trainer-0") as client:
        client.register(resume)
        for version in range(resume.version, until):
            batch = client.next_batch(version=version)
            assert all(version - each.oldest_version <= 1 for each in batch)
            steps.append([str(each.id) for each in batch])
            point = client.commit(
                version=version + 1,
                consumed=[each.id for each in batch],
                report=StepReport(step_seconds=0.1, metrics={"loss": 0.5}),
            )
            assert point.version == version + 1
        if until == launch.training.steps:
            client.conclude(version=until, ending=DONE)
    return steps
