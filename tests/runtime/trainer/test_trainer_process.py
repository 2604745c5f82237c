"""The trainer as a process, with a real coordinator and workers that make responses up."""

import asyncio
import contextlib
import itertools
import json
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch

from hetrl_core import launch as contract
from hetrl_core.job.algorithm import Advantage
from hetrl_core.job.spec import ModelFiles, TrainingSpec
from hetrl_core.launch import Launch
from hetrl_core.plan.plan import Sharding, TrainingMode
from hetrl_core.plan.pod_sets import Rank
from hetrl_core.plan.training_split import TrainingSplit
from hetrl_core.task import Role, Task
from hetrl_runtime.coordinator.server import serve
from hetrl_runtime.trainer.checkpoints.checkpoint import read
from hetrl_runtime.transport.clients.coordinator_client import WorkerClient
from hetrl_runtime.transport.errors import RunEnded
from hetrl_runtime.transport.weights.fetching import fetch_weights
from hetrl_runtime.wire.values import ProcessStatus
from tests.runtime.launches import a_launch
from tests.runtime.trainer.trajectories import a_trajectory

pytestmark = pytest.mark.slow

RANK = Rank(ordinal=0, local_gpu=0, task=Task.ACTOR_TRAINING, replica=0, stage=0, tensor_rank=0)


def a_trainer_launch(directory: Path, model: ModelFiles, *, steps: int) -> Launch:
    return a_launch(
        directory,
        role=Role.TRAINER,
        model=model,
        ranks=(RANK,),
        training=TrainingSpec(steps=steps, learning_rate=1e-3, checkpoint_every_steps=3),
        startup_deadline_seconds=240.0,
    )


@contextlib.asynccontextmanager
async def a_trainer(
    launch: Launch, directory: Path, *, ordinal: int = 0
) -> AsyncIterator[asyncio.subprocess.Process]:
    file = directory / "trainer.json"
    file.write_text(contract.to_json(launch))
    program = "from hetrl_runtime.pod_commands.trainer import command; command()"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        "--launch",
        str(file),
        "--ordinal",
        str(ordinal),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def succeed(process: asyncio.subprocess.Process) -> None:
    _, said = await process.communicate()
    assert process.returncode == 0, said.decode()


async def last_line(process: asyncio.subprocess.Process) -> str:
    _, said = await process.communicate()
    assert b"Traceback" not in said
    return said.decode().splitlines()[-1]


@contextlib.asynccontextmanager
async def the_rest(
    launch: Launch, *, reward: Callable[[], float], num_tokens: int = 3
) -> AsyncIterator[None]:
    """A coordinator and one worker."""
    stop = asyncio.Event()
    coordinator = asyncio.create_task(
        serve(replace(launch, role=Role.COORDINATOR, pod_set="coordinator"), stop=stop)
    )
    worker = asyncio.create_task(work(launch, reward=reward, num_tokens=num_tokens))
    try:
        yield
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        stop.set()
        await coordinator


async def work(launch: Launch, *, reward: Callable[[], float], num_tokens: int) -> None:
    """Follow the versions, and answer every prompt at once with tokens of the newest."""
    version = 0
    async with WorkerClient(launch, process="rollout-0") as client:

        async def follow() -> None:
            nonlocal version
            async for news in client.announcements():
                version = news.version

        following = asyncio.create_task(follow())
        with contextlib.suppress(RunEnded):
            while not following.done():
                client.report(ProcessStatus(version=version))
                for lease in await client.lease(version=version, max_trajectories=4):
                    for identity in lease.ids:
                        made_up = a_trajectory(
                            group=identity.group,
                            member=identity.member,
                            response=[random.randrange(3, 99) for _ in range(num_tokens)],
                            versions=[version],
                            reward=reward(),
                        )
                        await client.deliver(
                            replace(made_up, epoch=lease.epoch, process="rollout-0")
                        )
        await following


def some_reward() -> float:
    return float(random.random() < 0.5)


def steps(launch: Launch) -> list[dict[str, object]]:
    file = Path(launch.state_path) / "steps.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


async def until_step(launch: Launch, step: int) -> None:
    async with asyncio.timeout(240):
        while not any(each["step"] == step for each in steps(launch)):
            await asyncio.sleep(0.05)


async def test_run_to_its_end_leaves_a_policy_that_has_moved(tmp_path, tiny_model):
    launch = a_trainer_launch(tmp_path, tiny_model, steps=5)

    async with the_rest(launch, reward=some_reward), a_trainer(launch, tmp_path) as trainer:
        await succeed(trainer)

    assert [each["step"] for each in steps(launch)] == [1, 2, 3, 4, 5]
    names = sorted(path.name for path in Path(launch.checkpoint_path).glob("step-*"))
    assert names == ["step-00000003", "step-00000005"]
    trained = read(Path(launch.checkpoint_path) / "step-00000005")
    before = safetensors.torch.load_file(f"{tiny_model.source}/model.safetensors")
    assert trained.resume.version == 5
    assert any((trained.weights[name] != before[name]).any() for name in before)
    metrics = steps(launch)[-1]["metrics"]
    assert {"loss", "entropy", "gradient_norm", "behaviour_kl"} <= metrics.keys()


async def test_two_replicas_train_one_run_and_end_together(tmp_path, tiny_model):
    launch = replace(
        a_trainer_launch(tmp_path, tiny_model, steps=4),
        training_split=TrainingSplit(shares=(1.0, 1.0)),
        ranks=(RANK, replace(RANK, ordinal=1, replica=1)),
    )

    async with (
        the_rest(launch, reward=some_reward),
        a_trainer(launch, tmp_path) as leader,
        a_trainer(launch, tmp_path, ordinal=1) as follower,
    ):
        await asyncio.gather(succeed(leader), succeed(follower))

    assert [each["step"] for each in steps(launch)] == [1, 2, 3, 4]


async def test_four_processes_in_two_pods_train_replicas_of_two_stages(tmp_path, tiny_model):
    launch = replace(
        a_trainer_launch(tmp_path, tiny_model, steps=4),
        training_split=TrainingSplit(
            shares=(2.0, 1.0), stage_layers=(2, 1), mode=TrainingMode(sharding=Sharding.FULL)
        ),
        ranks=tuple(
            replace(RANK, ordinal=replica, local_gpu=stage, replica=replica, stage=stage)
            for replica in range(2)
            for stage in range(2)
        ),
    )

    async with (
        the_rest(launch, reward=some_reward),
        a_trainer(launch, tmp_path) as leaders,
        a_trainer(launch, tmp_path, ordinal=1) as followers,
    ):
        await asyncio.gather(succeed(leaders), succeed(followers))

    assert [each["step"] for each in steps(launch)] == [1, 2, 3, 4]
    trained = read(Path(launch.checkpoint_path) / "step-00000004")
    before = safetensors.torch.load_file(f"{tiny_model.source}/model.safetensors")
    assert trained.weights.keys() == before.keys()
    layers = {name.split(".")[2] for name in before if ".layers." in name}
    for layer in layers:
        mine = [name for name in before if f".layers.{layer}." in name]
        assert any((trained.weights[name] != before[name]).any() for name in mine)
    assert {f"{name}:exp_avg" for name in before} <= trained.optimizer.keys()


async def test_run_continues_under_another_split(tmp_path, tiny_model):
    alone = a_trainer_launch(tmp_path, tiny_model, steps=40)
    split = replace(
        alone,
        training_split=TrainingSplit(stage_layers=(2, 1), tensor=2),
        ranks=tuple(
            replace(RANK, local_gpu=2 * stage + tensor, stage=stage, tensor_rank=tensor)
            for stage in range(2)
            for tensor in range(2)
        ),
    )

    async with the_rest(alone, reward=some_reward):
        async with a_trainer(alone, tmp_path) as trainer:
            await until_step(alone, 2)
            trainer.send_signal(signal.SIGTERM)
            await succeed(trainer)
        done = len(steps(alone))
        async with a_trainer(split, tmp_path) as trainer:
            await until_step(alone, done + 2)
            trainer.send_signal(signal.SIGTERM)
            await succeed(trainer)

    assert [each["step"] for each in steps(alone)] == list(range(1, len(steps(alone)) + 1))
    newest = max(Path(alone.checkpoint_path).iterdir())
    assert newest.name == f"step-{len(steps(alone)):08d}"


async def test_replica_that_dies_takes_the_others_down_to_start_again(tmp_path, tiny_model):
    launch = replace(
        a_trainer_launch(tmp_path, tiny_model, steps=1000),
        training_split=TrainingSplit(shares=(1.0, 1.0)),
        ranks=(RANK, replace(RANK, ordinal=1, replica=1)),
    )

    async with (
        the_rest(launch, reward=some_reward),
        a_trainer(launch, tmp_path) as leader,
        a_trainer(launch, tmp_path, ordinal=1) as follower,
    ):
        await until_step(launch, 2)
        follower.kill()
        said = await last_line(leader)

    assert leader.returncode == 1
    assert said


async def test_sigterm_leaves_a_checkpoint_that_the_next_start_resumes(tmp_path, tiny_model):
    launch = a_trainer_launch(tmp_path, tiny_model, steps=40)

    async with the_rest(launch, reward=some_reward):
        async with a_trainer(launch, tmp_path) as trainer:
            await until_step(launch, 4)
            trainer.send_signal(signal.SIGTERM)
            await succeed(trainer)
        done = len(steps(launch))
        newest = max(Path(launch.checkpoint_path).iterdir())
        assert newest.name == f"step-{done:08d}"

        async with a_trainer(launch, tmp_path):
            await until_step(launch, done + 2)

    # One line a version, in one unbroken order: nothing was done twice or left out.
    assert [each["step"] for each in steps(launch)] == list(range(1, len(steps(launch)) + 1))


async def test_killed_trainer_and_run_go_back_to_the_checkpoint(tmp_path, tiny_model):
    launch = a_trainer_launch(tmp_path, tiny_model, steps=12)

    async with the_rest(launch, reward=some_reward):
        async with a_trainer(launch, tmp_path) as trainer:
            # The checkpoint of step 6 is begun when that of step 3 is written.
            await until_step(launch, 7)
            trainer.kill()
            await trainer.wait()
        done = len(steps(launch))
        newest_checkpoint = int(max(Path(launch.checkpoint_path).glob("step-*")).name[5:])
        async with a_trainer(launch, tmp_path) as trainer:
            await succeed(trainer)

    assert newest_checkpoint in {3, 6, 9}
    numbers = [each["step"] for each in steps(launch)]
    assert numbers == [*range(1, done + 1), *range(newest_checkpoint + 1, 13)]


async def test_workers_can_fetch_a_version_once_announced(tmp_path, tiny_model):
    launch = a_trainer_launch(tmp_path, tiny_model, steps=30)

    async with the_rest(launch, reward=some_reward), a_trainer(launch, tmp_path):
        await until_step(launch, 2)
        snapshot = await fetch_weights(launch, process="rollout-9", deadline_seconds=60)

    assert snapshot.version >= 2
    fetched = safetensors.torch.load(bytes(snapshot.data))
    own = safetensors.torch.load_file(f"{tiny_model.source}/model.safetensors")
    assert {name: each.shape for name, each in fetched.items()} == {
        name: each.shape for name, each in own.items()
    }


async def test_rewards_that_never_vary_end_the_run_with_its_reason(tmp_path, tiny_model):
    launch = a_trainer_launch(tmp_path, tiny_model, steps=100)

    async with the_rest(launch, reward=lambda: 0.0), a_trainer(launch, tmp_path) as trainer:
        said = await last_line(trainer)

    assert trainer.returncode == 3
    assert said.startswith("NoLearningSignal: every reward of the last 10 steps was 0")
    assert len(steps(launch)) == 10
    assert result_of(launch) == ("Failed", "NoLearningSignal")


async def test_run_that_stays_not_finite_ends_with_good_checkpoints_alone(tmp_path, tiny_model):
    launch = a_trainer_launch(tmp_path, tiny_model, steps=100)
    launch = replace(
        launch,
        algorithm=replace(launch.algorithm, advantage=Advantage.LEAVE_ONE_OUT, max_staleness=0),
        training=replace(launch.training, checkpoint_every_steps=1, keep_last_checkpoints=1),
    )
    # Float32 holds such rewards, and not how far they are from each other.
    good, bad = itertools.repeat([0.0, 1.0], 4), itertools.repeat([3e38, -3e38])
    rewards = itertools.chain.from_iterable(itertools.chain(good, bad))

    async with the_rest(launch, reward=lambda: next(rewards)), a_trainer(launch, tmp_path) as run:
        said = await last_line(run)

    assert run.returncode == 3
    assert said.startswith("NotFinite: a step was not finite in 3 versions in a row")
    assert "by its advantage, with " in said
    # What was skipped is a version of the same weights; the third is none.
    assert len(steps(launch)) == 4
    assert "loss" in steps(launch)[1]["metrics"]
    assert steps(launch)[2]["metrics"] == {}
    (kept,) = Path(launch.checkpoint_path).glob("step-*")
    assert kept.name == "step-00000002"
    assert read(kept).resume.version == 2
    assert result_of(launch) == ("Failed", "NotFinite")


async def test_engine_that_computes_another_model_ends_the_run(tmp_path, tiny_model):
    launch = a_trainer_launch(tmp_path, tiny_model, steps=100)

    # Made-up responses have log-probabilities of -1, of which the trainer knows nothing.
    async with (
        the_rest(launch, reward=some_reward, num_tokens=500),
        a_trainer(launch, tmp_path) as run,
    ):
        said = await last_line(run)

    assert run.returncode == 3
    assert said.startswith("EngineMismatch: trainer and engine differ by ")
    assert "(mean log-probability -" in said
    assert steps(launch) == []
    assert not list(Path(launch.checkpoint_path).glob("step-*"))
    assert result_of(launch) == ("Failed", "EngineMismatch")


def result_of(launch: Launch) -> tuple[str, str]:
    found = json.loads((Path(launch.state_path) / "result.json").read_text())
    return found["outcome"], found["reason"]


async def test_missing_model_is_named_and_not_tried_again(tmp_path):
    launch = a_trainer_launch(tmp_path, ModelFiles(source=str(tmp_path / "nowhere")), steps=1)

    async with a_trainer(launch, tmp_path) as trainer:
        said = await last_line(trainer)

    assert trainer.returncode == 3
    assert said == f"model path {tmp_path}/nowhere is not a directory"


async def test_damaged_checkpoint_is_named_and_not_tried_again(tmp_path, tiny_model):
    launch = a_trainer_launch(tmp_path, tiny_model, steps=1)
    (Path(launch.checkpoint_path) / "step-00000007").mkdir(parents=True)

    async with a_trainer(launch, tmp_path) as trainer:
        said = await last_line(trainer)

    assert trainer.returncode == 3
    assert said.startswith(f"checkpoint {launch.checkpoint_path}/step-00000007 is damaged")
