"""Our engine and our learner on the task, in one process: one whole synchronous step a turn.

Its first argument is JSON settings; ``turns`` has the output. These are the parts that rollout
workers and trainers run; what moves trajectories and weights between processes is left out, as
TRL has none. Weights go as the bytes that a trainer publishes and an engine takes.
"""

import asyncio
import json
import sys
import time
from itertools import count
from typing import Any

import numpy as np
import torch
from transformers import AutoTokenizer

from bench.runtime import task
from bench.runtime.turns import Turn, await_turn, say
from hetrl_core.job.algorithm import AlgorithmSpec, Mode
from hetrl_core.job.spec import DataSpec, Engine, ModelFiles, TrainingSpec
from hetrl_core.launch import Address, JobIdentity, Launch
from hetrl_core.task import Role
from hetrl_runtime.compute import memory
from hetrl_runtime.rollout.engine import EngineSettings, Generation, GenerationRequest
from hetrl_runtime.rollout.engines.transformers import TransformersEngine
from hetrl_runtime.trainer.actor import Actor
from hetrl_runtime.trainer.batch import collate
from hetrl_runtime.trainer.learner import Learner
from hetrl_runtime.trainer.model.model import Policy
from hetrl_runtime.trainer.parallel.place import Place
from hetrl_runtime.trainer.processes.peers import Peers
from hetrl_runtime.wire.trajectory import SampledTrajectory


def main() -> None:
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(settings["threads"])
    memory.keep_freed()
    asyncio.run(_take_turns(settings))


async def _take_turns(settings: dict[str, Any]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(settings["model"])
    engine = TransformersEngine(
        EngineSettings(
            model=settings["model"],
            concurrency=settings["places"],
            stop_tokens=(tokenizer.eos_token_id,),
            max_sequence_tokens=task.PROMPT_TOKENS + settings["max_tokens"],
            seed=settings["seed"],
        )
    )
    await engine.start()
    learner = _learner(settings)
    memory.keep_loaded()
    words = task.prompts(20_000, seed=settings["seed"])
    num_prompts = settings["batch_size"] // settings["group_size"]
    for version in count():
        await asyncio.to_thread(await_turn)
        started, cpu_started = time.perf_counter(), time.process_time()
        chosen = [words[(version * num_prompts + each) % len(words)] for each in range(num_prompts)]
        trajectories = await _sampled(engine, tokenizer, chosen, settings)
        rewards = [
            task.reward(
                each.question,
                tokenizer.decode(each.response_tokens, skip_special_tokens=True),
                min_tokens=settings["min_tokens"],
                max_tokens=settings["max_tokens"],
            )
            for each in trajectories
        ]
        learner.train(collate(trajectories, rewards=rewards), version=version)
        await engine.update_weights(learner.weights(), version=version + 1)
        say(
            Turn(
                seconds=time.perf_counter() - started,
                cpu_seconds=time.process_time() - cpu_started,
                num_samples=len(trajectories),
                num_tokens=sum(each.num_response_tokens for each in trajectories),
                reward=sum(rewards) / len(rewards),
            )
        )


async def _sampled(
    engine: TransformersEngine, tokenizer: Any, words: list[str], settings: dict[str, Any]
) -> list[SampledTrajectory]:
    prompts = tokenizer(words)["input_ids"]
    requests = [
        GenerationRequest(
            id=f"{number}/{member}", prompt_tokens=tuple(prompt), max_tokens=settings["max_tokens"]
        )
        for number, prompt in enumerate(prompts)
        for member in range(settings["group_size"])
    ]
    generations = await asyncio.gather(*map(engine.generate, requests))
    return [
        _trajectory(number, request, generation, words[number // settings["group_size"]], settings)
        for number, (request, generation) in enumerate(zip(requests, generations, strict=True))
    ]


def _trajectory(
    number: int,
    request: GenerationRequest,
    generation: Generation,
    word: str,
    settings: dict[str, Any],
) -> SampledTrajectory:
    group, member = divmod(number, settings["group_size"])
    return SampledTrajectory(
        group=group,
        member=member,
        epoch=0,
        process="bench",
        prompt_tokens=np.array(request.prompt_tokens, np.int32),
        response_tokens=np.array(generation.tokens, np.int32),
        behaviour_log_probs=np.array(generation.log_probs, np.float32),
        token_versions=np.array(generation.versions, np.int32),
        reward=0.0,
        finish_reason=generation.finish_reason,
        generation_seconds=0.0,
        response_text="",
        question=word,
        answer="",
    )


def _learner(settings: dict[str, Any]) -> Learner:
    launch = _launch(settings)
    peers = Peers(launch, place=Place(split=launch.training_split), device=torch.device("cpu"))
    policy = Policy(launch.model, device=torch.device("cpu"), temperature=1.0)
    return Learner(
        actor=Actor(policy, algorithm=launch.algorithm, training=launch.training),
        algorithm=launch.algorithm,
        training=launch.training,
        max_response_tokens=settings["max_tokens"],
        peers=peers,
    )


def _launch(settings: dict[str, Any]) -> Launch:
    nowhere = Address(host="127.0.0.1", port=1)
    return Launch(
        job=JobIdentity(namespace="bench", name="bench", uid="bench"),
        pod_set="trainer",
        role=Role.TRAINER,
        coordinator=nowhere,
        weights=nowhere,
        rendezvous=nowhere,
        model=ModelFiles(source=settings["model"]),
        engine=Engine.TRANSFORMERS,
        algorithm=AlgorithmSpec(
            mode=Mode.SYNC,
            max_staleness=0,
            group_size=settings["group_size"],
            global_batch_size=settings["batch_size"],
        ),
        data=DataSpec(prompts=""),
        training=TrainingSpec(
            steps=100_000, learning_rate=settings["learning_rate"], seed=settings["seed"]
        ),
        state_path="",
        checkpoint_path="",
        startup_deadline_seconds=60,
    )


if __name__ == "__main__":
    main()
