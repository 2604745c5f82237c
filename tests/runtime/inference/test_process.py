"""`hetrl inference` as a process, alone and with several ranks, beside a real coordinator."""

import asyncio
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hetrl_core.job.spec import ModelFiles
from hetrl_core.launch import Launch
from hetrl_core.task import Role, Task
from hetrl_runtime.inference.reference import Response
from hetrl_runtime.transport.clients.coordinator_client import TrainerClient, WorkerClient
from hetrl_runtime.transport.clients.inference_client import InferenceClient
from hetrl_runtime.wire.trajectory import LogProbs
from hetrl_runtime.wire.values import ALL_STEPS_DONE, Ending, ResumePoint
from tests.runtime.coordinators import a_coordinator
from tests.runtime.inference.workers import RANK, a_reference, an_inference_process
from tests.runtime.launches import a_launch
from tests.runtime.trajectories import a_trajectory

pytestmark = pytest.mark.slow

SIZES = (1, 7, 30, 12)


def a_run(directory: Path, model: ModelFiles, *, num_ranks: int = 1) -> Launch:
    return a_launch(
        directory,
        model=model,
        inference_tasks=(Task.REFERENCE_INFERENCE,),
        ranks=tuple(replace(RANK, local_gpu=each, tensor_rank=each) for each in range(num_ranks)),
        startup_deadline_seconds=240.0,
    )


def begin(launch: Launch) -> None:
    """Say as the run's trainer that it has begun."""
    with TrainerClient(replace(launch, role=Role.TRAINER), process="trainer-0") as client:
        client.register(ResumePoint())


def conclude(launch: Launch) -> None:
    """Say as the run's trainer that it is over."""
    ending = Ending(reason=ALL_STEPS_DONE)
    with TrainerClient(replace(launch, role=Role.TRAINER), process="trainer-0") as client:
        client.register(ResumePoint(version=launch.training.steps))
        client.conclude(version=launch.training.steps, ending=ending)


async def words(launch: Launch) -> list[LogProbs]:
    """Ask as a rollout does, once it has heard of somebody to ask."""
    several = [a_trajectory(versions=[0] * size) for size in SIZES]
    async with (
        WorkerClient(launch, process="rollout-0") as coordinator,
        InferenceClient(launch, process="rollout-0") as client,
    ):

        async def listen() -> None:
            async for news in coordinator.announcements():
                client.meet(news.inference_endpoints)

        listening = asyncio.create_task(listen())
        found = await asyncio.gather(
            *(client.reference_log_probs(each, is_wanted=lambda: True) for each in several)
        )
        listening.cancel()
    assert all(each is not None for each in found)
    return [each for each in found if each is not None]


@pytest.mark.parametrize("num_ranks", [1, 2])
async def test_inference_process_scores_like_the_whole_model_and_ends(
    tmp_path: Path, a_model: ModelFiles, num_ranks: int
) -> None:
    launch = a_run(tmp_path, a_model, num_ranks=num_ranks)

    async with a_coordinator(launch), an_inference_process(launch, tmp_path) as process:
        await asyncio.to_thread(begin, launch)
        found = await words(launch)
        await asyncio.to_thread(conclude, launch)
        _, said = await process.communicate()

    assert process.returncode == 0, said.decode()
    assert said.decode().splitlines()[-1] == "the run ended: AllStepsDone"
    here = a_reference(replace(launch, ranks=(RANK,)))
    several = [a_trajectory(versions=[0] * size) for size in SIZES]
    expected = here.look([Response(each.prompt_tokens, each.response_tokens) for each in several])
    for one, other in zip(found, expected, strict=True):
        assert np.allclose(one, other, atol=1e-4)


@pytest.mark.parametrize("num_ranks", [1, 2])
async def test_worker_that_is_stopped_exits_cleanly(
    tmp_path: Path, a_model: ModelFiles, num_ranks: int
) -> None:
    launch = a_run(tmp_path, a_model, num_ranks=num_ranks)

    async with a_coordinator(launch), an_inference_process(launch, tmp_path) as process:
        await asyncio.to_thread(begin, launch)
        await words(launch)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            await process.communicate()

    assert process.returncode == 0


async def test_missing_model_is_named_and_not_tried_again(tmp_path: Path) -> None:
    launch = a_run(tmp_path, ModelFiles(source=str(tmp_path / "nowhere")))

    async with an_inference_process(launch, tmp_path) as process:
        _, said = await process.communicate()

    assert process.returncode == 3
    last = said.decode().splitlines()[-1]
    assert last == f"model path {tmp_path}/nowhere is not a directory"


@pytest.mark.parametrize(
    ("ranks", "reason"),
    [
        pytest.param((), "inference-test-0 has no ranks", id="none"),
        pytest.param(
            (replace(RANK, task=Task.ACTOR_TRAINING),), "has ActorTraining ranks", id="another task"
        ),
        pytest.param(
            (RANK, replace(RANK, local_gpu=1, replica=1)), "several replicas or stages", id="two"
        ),
        pytest.param((replace(RANK, stage=1),), "several replicas or stages", id="a stage"),
    ],
)
async def test_ranks_that_it_cannot_have_are_refused(
    tmp_path: Path, a_model: ModelFiles, ranks: tuple[object, ...], reason: str
) -> None:
    launch = replace(a_run(tmp_path, a_model), ranks=ranks)  # type: ignore[arg-type]

    async with an_inference_process(launch, tmp_path) as process:
        _, said = await process.communicate()

    assert process.returncode == 1
    assert reason in said.decode()
