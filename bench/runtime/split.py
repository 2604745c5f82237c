"""A run on a 3:1 split, asynchronous beside synchronous, and both beside what is predicted.

Three GPUs generate and one trains, all simulated (``paced``); the coordinator is a process of
its own, workers and the trainer's loop are those of every run. The simulator plays the same
pipeline.

    .venv/bin/python -m bench.runtime.split [--scale 1.0] [--steps 30]
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Thread
from typing import Any, cast

import numpy as np
import torch
from prometheus_client import CollectorRegistry

from bench.runtime.paced import PacedEngine, PacedLearner
from bench.runtime.task import LONG, prompts
from hetrl_cli.run.setup.ports import free_ports
from hetrl_core import launch as contract
from hetrl_core.job.algorithm import AlgorithmSpec, Mode
from hetrl_core.job.spec import DataSpec, Engine, ModelFiles, TrainingSpec
from hetrl_core.launch import Address, JobIdentity, Launch
from hetrl_core.task import Role
from hetrl_planner.problem.lengths import Empirical
from hetrl_planner.simulator.pipeline.pipeline import (
    Pipeline,
    RolloutGroup,
    TrainerSpec,
    WeightRoute,
)
from hetrl_planner.simulator.simulate import simulate
from hetrl_runtime.metrics.rollout import RolloutMetrics
from hetrl_runtime.reward.verdict import Response, Score
from hetrl_runtime.rollout.loop import RolloutLoop
from hetrl_runtime.rollout.prompts import PromptFormat
from hetrl_runtime.rollout.responder import Equipment
from hetrl_runtime.tiny.model import make_model
from hetrl_runtime.tiny.warm_up import WarmUp
from hetrl_runtime.trainer.learner import Learner
from hetrl_runtime.trainer.loop import Leader
from hetrl_runtime.trainer.parallel.place import Place
from hetrl_runtime.trainer.processes.peers import Peers
from hetrl_runtime.trainer.stop_signal import StopSignal
from hetrl_runtime.transport.clients.coordinator_client import WorkerClient
from hetrl_runtime.transport.weights.relay import weight_source

NUM_REPLICAS = 3
PLACES = 16
BATCH_SIZE = 64
GROUP_SIZE = 8
MAX_STALENESS = 4
WARM_UP_STEPS = MAX_STALENESS + 2
SEEDS = range(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One mode of the run: measured, and predicted for many more steps."""

    measured_samples_per_second: float
    predicted_samples_per_second: float
    num_steps: int
    measured_step_seconds: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Measured over predicted."""
        return self.measured_samples_per_second / self.predicted_samples_per_second


def pipeline(scale: float, *, max_staleness: int) -> Pipeline:
    """Return the split's times, ``scale`` times as long as a small model's on small GPUs."""
    source = random.Random(0)
    return Pipeline(
        batch_size=BATCH_SIZE,
        group_size=GROUP_SIZE,
        max_staleness=max_staleness,
        lengths=Empirical(tokens=tuple(LONG.draw(source) for _ in range(20_000))),
        max_concurrent=NUM_REPLICAS * PLACES,
        rollouts=(
            RolloutGroup(
                name="rollouts",
                region="here",
                num_replicas=NUM_REPLICAS,
                token_seconds=tuple(
                    scale * (0.010 + 0.0002 * running) for running in range(1, PLACES + 1)
                ),
            ),
        ),
        trainer=TrainerSpec(step_seconds=scale * 1.5),
        routes=(WeightRoute(region="here", load_seconds=scale * 0.1),),
    )


def main() -> None:
    """Run both modes and print what they come to, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--steps", type=int, default=30)
    arguments = parser.parse_args()
    found = {
        mode: outcome(mode, arguments.scale, num_steps=arguments.steps)
        for mode in (Mode.SYNC, Mode.ASYNC)
    }
    print(json.dumps({mode: asdict(each) | {"ratio": each.ratio} for mode, each in found.items()}))


def outcome(mode: Mode, scale: float, *, num_steps: int) -> Outcome:
    """Run one mode and predict it."""
    timings = pipeline(scale, max_staleness=0 if mode is Mode.SYNC else MAX_STALENESS)
    ended_at = _run(timings, mode, num_steps)
    steps = [later - sooner for sooner, later in itertools.pairwise(ended_at)][WARM_UP_STEPS:]
    predicted = [
        simulate(timings, steps=400, generator=np.random.default_rng(seed)).samples_per_second
        for seed in SEEDS
    ]
    return Outcome(
        measured_samples_per_second=BATCH_SIZE * len(steps) / sum(steps),
        predicted_samples_per_second=statistics.mean(predicted),
        num_steps=len(steps),
        measured_step_seconds=tuple(steps),
    )


def _run(timings: Pipeline, mode: Mode, num_steps: int) -> list[float]:
    """Return when each step of training ended."""
    learner = PacedLearner(step_seconds=timings.trainer.step_seconds)
    with tempfile.TemporaryDirectory() as folder:
        launch = _launch(Path(folder), timings, mode, num_steps)
        with _coordinator(launch):
            workers = Thread(target=asyncio.run, args=[_work_together(launch, timings)])
            workers.start()
            # It asks for signals, which the main thread alone is given.
            _train(launch, learner)
            workers.join()
    return learner.ended_at


async def _work_together(launch: Launch, timings: Pipeline) -> None:
    await asyncio.gather(*(_work(launch, timings, number) for number in range(NUM_REPLICAS)))


def _launch(folder: Path, timings: Pipeline, mode: Mode, num_steps: int) -> Launch:
    make_model(folder / "model", seed=1, schedule=WarmUp(steps=1, batch_size=1))
    file = folder / "prompts.jsonl"
    file.write_text(
        "\n".join(json.dumps({"question": each, "answer": "a"}) for each in prompts(500, seed=1))
    )
    ports = [Address(host="127.0.0.1", port=port) for port in free_ports(3)]
    return Launch(
        job=JobIdentity(namespace="bench", name="split", uid="1"),
        pod_set="split",
        role=Role.COORDINATOR,
        listen_host="127.0.0.1",
        metrics_port=0,
        coordinator=ports[0],
        weights=ports[1],
        rendezvous=ports[2],
        num_rollout_pods=NUM_REPLICAS,
        concurrency=PLACES,
        max_concurrent=NUM_REPLICAS * PLACES,
        model=ModelFiles(source=str(folder / "model")),
        engine=Engine.TRANSFORMERS,
        algorithm=AlgorithmSpec(
            mode=mode,
            max_staleness=timings.max_staleness or 0,
            group_size=GROUP_SIZE,
            global_batch_size=BATCH_SIZE,
        ),
        data=DataSpec(prompts=str(file), max_prompt_tokens=32, max_response_tokens=LONG.most),
        training=TrainingSpec(steps=num_steps, checkpoint_every_steps=num_steps),
        state_path=str(folder / "state"),
        checkpoint_path=str(folder / "checkpoints"),
    )


@contextlib.contextmanager
def _coordinator(launch: Launch) -> Iterator[None]:
    file = Path(launch.state_path).parent / "launch.json"
    file.write_text(contract.to_json(launch))
    hetrl = Path(sys.executable).parent / "hetrl"
    process = subprocess.Popen(
        [hetrl, "coordinator", "--launch", file, "--ordinal", "0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
        process.wait(60)
    finally:
        process.kill()
        process.wait()


def _train(launch: Launch, learner: PacedLearner) -> None:
    peers = Peers(launch, place=Place(split=launch.training_split), device=torch.device("cpu"))
    Leader(
        replace(launch, role=Role.TRAINER),
        process="trainer-0",
        learner=cast("Learner", learner),
        peers=peers,
        stop=StopSignal(),
    ).run()


async def _work(launch: Launch, timings: Pipeline, number: int) -> None:
    launch = replace(
        launch, role=Role.ROLLOUT, state_path=f"{launch.state_path}-{number}", pod_set="rollouts"
    )
    Path(launch.state_path).mkdir()
    process = f"rollouts-{number}"
    engine = PacedEngine(
        token_seconds=timings.rollouts[0].token_seconds,
        load_seconds=timings.routes[0].load_seconds,
        lengths=LONG,
        seed=number,
    )
    await engine.start()
    with weight_source(launch, process=process) as weights:
        async with WorkerClient(launch, process=process) as client:
            equipment = Equipment(
                engine=engine,
                prompts=PromptFormat(Path(launch.model.source)),
                scorer=cast("Any", _Coin()),
                client=client,
                weights=weights,
                metrics=RolloutMetrics(CollectorRegistry()),
            )
            await RolloutLoop(launch, process=process, equipment=equipment).run()
    await engine.stop()


class _Coin:
    """Rewards that differ within groups."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    async def score(self, *_: Response, **__: object) -> Score:
        return Score(reward=float(next(self._numbers) % 2))


if __name__ == "__main__":
    main()
