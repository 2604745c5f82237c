"""A whole worker beside a real coordinator, over real sockets, with a real model.

The trainer publishes real weights and commits, but does not learn: which policy a token came
from is what is checked.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from hetrl_core.job.reward import LengthPenalty, PythonReward, RegexReward, RewardPart
from hetrl_core.job.spec import DataSpec, ModelFiles
from hetrl_core.launch import Launch, to_json
from hetrl_core.plan.pod_sets import Rank
from hetrl_core.task import Role, Task
from hetrl_runtime.inference.reward_model import RewardModel
from hetrl_runtime.model_files.errors import ModelError
from hetrl_runtime.rollout.engine import Generation
from hetrl_runtime.rollout.prompts import PromptFormat
from hetrl_runtime.rollout.worker import engine_settings
from hetrl_runtime.transport.clients.coordinator_client import TrainerClient
from hetrl_runtime.transport.errors import Unreachable
from hetrl_runtime.transport.weights import relay
from hetrl_runtime.transport.weights.fetching import fetch_weights
from hetrl_runtime.transport.weights.weights import Snapshot, WeightServer
from hetrl_runtime.wire.values import ResumePoint, StepReport
from tests.runtime.inference.models import save_reward_model
from tests.runtime.inference.workers import an_inference_worker
from tests.runtime.launches import a_launch, a_prompt_file
from tests.runtime.rollout.following import (
    BOUND,
    NUM_POLICIES,
    Trainer,
    a_coordinator,
    a_job,
    a_worker,
    check_tokens,
)
from tests.runtime.rollout.models import save_tiny_qwen3
from tests.runtime.rollout.reference import Reference

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    return {
        version: save_tiny_qwen3(tmp_path_factory.mktemp(f"policy-{version}"), seed=version)
        for version in range(NUM_POLICIES)
    }


async def test_run_ends_well_and_every_token_is_its_versions(
    tmp_path: Path, policies: dict[int, Path]
) -> None:
    launch = a_job(tmp_path, policies)
    trainer = Trainer(launch, policies)

    async with a_coordinator(launch):
        workers = [a_worker(launch, ordinal=number) for number in range(2)]
        await asyncio.to_thread(trainer.run, until=6)
        endings = await asyncio.gather(*workers)

    assert [each.reason for each in endings] == ["AllStepsDone"] * 2
    assert len(check_tokens(trainer)) > 2
    prompts = PromptFormat(policies[0])
    for _, batch in trainer.batches:
        for each in batch:
            assert prompts.decode(tuple(each.prompt_tokens.tolist())) == each.question
            assert each.reward in {0.0, 1.0}
            assert each.process in {"rollout-test-0", "rollout-test-1"}


async def test_weights_cross_regions_once_and_are_relayed(
    tmp_path: Path, policies: dict[int, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    async def fetch(launch: Launch, *, process: str, **wanted: Any) -> Snapshot:
        snapshot = await fetch_weights(launch, process=process, **wanted)
        asked.append((process, snapshot.version))
        return snapshot

    monkeypatch.setattr(relay, "fetch_weights", fetch)
    launch = a_job(tmp_path, policies, region="away", weights_cross_regions=True)
    trainer = Trainer(launch, policies)

    async with a_coordinator(launch):
        workers = [a_worker(launch, ordinal=number) for number in range(3)]
        await asyncio.to_thread(trainer.run, until=6)
        endings = await asyncio.gather(*workers)

    assert [each.reason for each in endings] == ["AllStepsDone"] * 3
    assert len(check_tokens(trainer)) > 2
    # Those who come before they are known to each other may ask the trainer once.
    assert len({process for process, version in asked if version >= 2}) == 1


async def test_responses_have_reference_scores_though_a_worker_dies(
    tmp_path: Path, policies: dict[int, Path]
) -> None:
    launch = a_job(tmp_path, policies, steps=8, inference_tasks=(Task.REFERENCE_INFERENCE,))
    trainer = Trainer(launch, policies)

    async with a_coordinator(launch):
        doomed, *asked = (an_inference_worker(launch, ordinal=number) for number in range(2))
        worker = a_worker(launch)
        await asyncio.to_thread(trainer.run, until=3)
        doomed.cancel()
        rest = Trainer(launch, policies)
        await asyncio.to_thread(rest.run, resume=ResumePoint(version=3, next_group=6), until=8)
        endings = await asyncio.gather(worker, *asked)

    assert {each.reason for each in endings} == {"AllStepsDone"}
    # Whatever sampled them: the reference is the model that the run began with.
    plain = Reference({0: policies[0]}, temperature=launch.algorithm.temperature)
    delivered = [each for _, batch in trainer.batches + rest.batches for each in batch]
    assert len(delivered) == 32
    for each in delivered:
        tokens = tuple(each.response_tokens.tolist())
        response = Generation(
            tokens=tokens, log_probs=(), versions=(0,) * len(tokens), finish_reason="stop"
        )
        assert each.reference_log_probs is not None
        expected = plain.chosen(tuple(each.prompt_tokens.tolist()), response)
        assert each.reference_log_probs.tolist() == pytest.approx(expected, abs=1e-3)


async def test_rewards_are_a_models_where_the_job_names_one(
    tmp_path: Path, policies: dict[int, Path]
) -> None:
    folder = save_reward_model(tmp_path / "reward-model")
    data = DataSpec(
        prompts=str(a_prompt_file(tmp_path / "prompts.jsonl")),
        reward="model",
        model=ModelFiles(source=str(folder)),
        length_penalty=LengthPenalty(buffer_tokens=24, weight=2.0),
        max_prompt_tokens=32,
        max_response_tokens=24,
    )
    launch = a_job(tmp_path, policies, data=data, inference_tasks=(Task.REWARD_INFERENCE,))
    trainer = Trainer(launch, policies)

    async with a_coordinator(launch):
        workers = [an_inference_worker(launch), a_worker(launch)]
        await asyncio.to_thread(trainer.run, until=6)
        endings = await asyncio.gather(*workers)

    assert {each.reason for each in endings} == {"AllStepsDone"}
    model = RewardModel(ModelFiles(source=str(folder)), device=torch.device("cpu"))
    for each in (each for _, batch in trainer.batches for each in batch):
        (worth,) = model.look([model.reads(each.question, each.response_text)])
        lost = 2.0 * each.num_response_tokens / 24
        assert each.reward == pytest.approx(worth - lost, abs=1e-3)
        assert each.reference_log_probs is None


async def test_rewards_are_the_jobs_sum_less_the_length_penalty(
    tmp_path: Path, policies: dict[int, Path]
) -> None:
    code = tmp_path / "code.py"
    code.write_text("def score(response, answer):\n    return len(response) + len(answer) / 1000\n")
    data = DataSpec(
        prompts=str(a_prompt_file(tmp_path / "prompts.jsonl")),
        rewards=(
            RewardPart(name="long", reward="python", python=PythonReward(file=str(code))),
            RewardPart(
                name="digit", weight=-0.5, reward="regex", regex=RegexReward(pattern="[0-9]")
            ),
        ),
        length_penalty=LengthPenalty(buffer_tokens=24, weight=2.0),
        max_prompt_tokens=32,
        max_response_tokens=24,
    )
    launch = a_job(tmp_path, policies, data=data)
    trainer = Trainer(launch, policies)

    async with a_coordinator(launch):
        worker = a_worker(launch)
        await asyncio.to_thread(trainer.run, until=6)
        await worker

    for each in (each for _, batch in trainer.batches for each in batch):
        worth = len(each.response_text) + len(each.answer) / 1000
        has_digit = float(any(character in "0123456789" for character in each.response_text))
        assert each.reward_parts == pytest.approx({"long": worth, "digit": has_digit}, abs=1e-5)
        lost = 2.0 * each.num_response_tokens / 24
        assert each.reward == pytest.approx(worth - 0.5 * has_digit - lost, abs=1e-5)


async def test_worker_follows_a_trainer_that_went_back_to_its_checkpoint(
    tmp_path: Path, policies: dict[int, Path]
) -> None:
    launch = a_job(tmp_path, policies, steps=5)
    first, second = Trainer(launch, policies), Trainer(launch, policies)

    async with a_coordinator(launch):
        worker = a_worker(launch)
        await asyncio.to_thread(first.run, until=3)
        # What follows version 1 is given up: its weights, its tokens, its leases.
        second.policies = {0: policies[0], 1: policies[1], 2: policies[0]}
        await asyncio.to_thread(second.run, resume=ResumePoint(version=1, next_group=2), until=5)
        ending = await worker

    assert ending.reason == "AllStepsDone"
    assert check_tokens(second) & {2, 3}


async def test_worker_awaiting_a_lost_version_takes_the_next_epochs(
    tmp_path: Path, policies: dict[int, Path]
) -> None:
    launch = a_job(tmp_path, policies, steps=5)
    first, second = Trainer(launch, policies), Trainer(launch, policies)
    weights = (policies[1] / "model.safetensors").read_bytes()

    def die_after_the_commit() -> None:
        """Announce version 2, and be gone before anybody could fetch it."""
        with TrainerClient(launch, process="trainer-0") as client:
            client.register(ResumePoint(version=1, next_group=2))
            batch = client.next_batch(version=1)
            server.publish(Snapshot(version=1, data=weights))
            client.commit(version=2, consumed=[e.id for e in batch], report=StepReport())

    async with a_coordinator(launch):
        worker = a_worker(launch)
        await asyncio.to_thread(first.run, until=1)
        with WeightServer(job=launch.job, address=launch.weights, tls=None) as server:
            server.publish(Snapshot(version=1, data=weights))
            await asyncio.to_thread(die_after_the_commit)
        # The worker has version 1 and waits for another; the next trainer has version 1 too.
        second.policies = {0: policies[0], 1: policies[1], 2: policies[0]}
        await asyncio.wait_for(
            asyncio.to_thread(second.run, resume=ResumePoint(version=1, next_group=2), until=5),
            timeout=60,
        )
        ending = await worker

    assert ending.reason == "AllStepsDone"


async def test_prompt_that_is_too_long_is_delivered_as_a_failure(
    tmp_path: Path, policies: dict[int, Path]
) -> None:
    prompts = a_prompt_file(tmp_path / "prompts.jsonl", num_prompts=8)
    lines = prompts.read_text().splitlines()
    lines[3] = lines[3].replace("What is", "What in the whole wide world may be the value of")
    prompts.write_text("\n".join(lines) + "\n")
    data = DataSpec(prompts=str(prompts), max_prompt_tokens=32, max_response_tokens=8)
    launch = a_launch(
        tmp_path,
        max_staleness=BOUND,
        steps=8,
        model=ModelFiles(source=str(policies[0])),
        data=data,
    )
    prompts.write_text("\n".join(lines) + "\n")
    trainer = Trainer(launch, policies)

    async with a_coordinator(launch):
        worker = a_worker(launch)
        await asyncio.to_thread(trainer.run, until=8)
        await worker

    questions = {each.question for _, batch in trainer.batches for each in batch}
    assert len(questions) == 7
    assert not any("whole wide world" in question for question in questions)


async def test_worker_gives_up_on_a_coordinator_that_never_comes(
    tmp_path: Path, policies: dict[int, Path]
) -> None:
    launch = a_job(tmp_path, policies, startup_deadline_seconds=1.0)

    with pytest.raises(Unreachable, match=f"coordinator {launch.coordinator} did not answer"):
        await asyncio.wait_for(a_worker(launch), timeout=60)


async def test_missing_model_is_named_before_any_wait(
    tmp_path: Path, policies: dict[int, Path]
) -> None:
    launch = a_job(tmp_path, policies, model=ModelFiles(source=str(tmp_path / "nothing")))

    with pytest.raises(ModelError, match=f"model path {tmp_path}/nothing is not a dir"):
        await a_worker(launch)


def a_generation_rank(ordinal: int, *, replica: int, local_gpu: int, stage: int = 0) -> Rank:
    return Rank(
        ordinal=ordinal,
        local_gpu=local_gpu,
        task=Task.ACTOR_GENERATION,
        replica=replica,
        stage=stage,
        tensor_rank=local_gpu,
    )


def test_tensor_parallel_size_is_the_pods_ranks(tmp_path: Path, policies: dict[int, Path]) -> None:
    ranks = tuple(
        a_generation_rank(ordinal, replica=ordinal, local_gpu=gpu)
        for ordinal in range(2)
        for gpu in range(4)
    )
    launch = a_job(tmp_path, policies, ranks=ranks)
    prompts = PromptFormat(policies[0])

    settings = [
        engine_settings(launch, folder=policies[0], prompts=prompts, ordinal=ordinal)
        for ordinal in range(2)
    ]

    assert [each.tensor_parallel for each in settings] == [4, 4]
    assert settings[0].seed != settings[1].seed
    assert settings[0].max_sequence_tokens == 56


def test_pipeline_stages_are_refused_in_words(tmp_path: Path, policies: dict[int, Path]) -> None:
    ranks = (
        a_generation_rank(0, replica=0, local_gpu=0),
        a_generation_rank(0, replica=0, local_gpu=1, stage=1),
    )
    launch = a_job(tmp_path, policies, ranks=ranks)

    with pytest.raises(ValueError, match="without pipeline stages"):
        engine_settings(launch, folder=policies[0], prompts=PromptFormat(policies[0]), ordinal=0)


def a_process(launch: Launch, *, ordinal: str = "0") -> "subprocess.Popen[str]":
    file = Path(launch.state_path).parent / "launch.json"
    file.write_text(to_json(replace(launch, role=Role.ROLLOUT, pod_set="rollout-test")))
    return subprocess.Popen(
        [
            *(Path(sys.executable).with_name("hetrl"), "rollout"),
            *("--launch", file, "--ordinal", ordinal),
        ],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def test_command_names_a_missing_model_and_exits_with_3(
    tmp_path: Path, policies: dict[int, Path]
) -> None:
    launch = a_job(tmp_path, policies, model=ModelFiles(source=str(tmp_path / "nothing")))

    process = a_process(launch)
    _, errors = process.communicate(timeout=200)

    assert process.returncode == 3
    assert errors.splitlines()[-1] == f"model path {tmp_path}/nothing is not a directory"
    assert "Traceback" not in errors


def test_command_names_unusable_code_and_exits_with_3(
    tmp_path: Path, policies: dict[int, Path]
) -> None:
    code = tmp_path / "code.py"
    code.write_text("def score(:")
    launch = a_job(tmp_path, policies)
    data = replace(launch.data, reward="python", python=PythonReward(file=str(code)))

    process = a_process(replace(launch, data=data))
    _, errors = process.communicate(timeout=200)

    assert process.returncode == 3
    assert errors.splitlines()[-1].startswith(
        f"data.python: {code} cannot be used: SyntaxError: invalid syntax"
    )
    assert "Traceback" not in errors


async def test_terminated_worker_returns_leases_and_exits_with_0(
    tmp_path: Path, policies: dict[int, Path]
) -> None:
    launch = a_job(tmp_path, policies, steps=4)
    trainer = Trainer(launch, policies)

    async with a_coordinator(launch):
        training = asyncio.create_task(asyncio.to_thread(trainer.run, until=4))
        process = a_process(launch)
        await until(lambda: len(trainer.batches) >= 2, seconds=240)
        process.send_signal(signal.SIGTERM)
        _, errors = await asyncio.to_thread(process.communicate, timeout=10)
        worker = a_worker(launch, ordinal=1)
        await training
        await worker

    assert process.returncode == 0, errors
    assert "Traceback" not in errors
    assert [version for version, _ in trainer.batches] == [0, 1, 2, 3]


async def until(holds: Callable[[], bool], *, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.02)
