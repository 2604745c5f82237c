"""Workers beside a coordinator, and a trainer that publishes weights of its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from hetrl_core.job.spec import DataSpec, ModelFiles
from hetrl_core.launch import Launch
from hetrl_core.task import Role
from hetrl_runtime.coordinator.server import serve
from hetrl_runtime.rollout.engine import Generation
from hetrl_runtime.rollout.worker import work
from hetrl_runtime.transport.clients.coordinator_client import TrainerClient
from hetrl_runtime.transport.weights.weights import Snapshot, WeightServer
from hetrl_runtime.wire.trajectory import SampledTrajectory
from hetrl_runtime.wire.values import ALL_STEPS_DONE, Ending, ResumePoint, StepReport
from tests.runtime.launches import a_launch, a_prompt_file
from tests.runtime.rollout.reference import Reference

NUM_POLICIES = 3
BOUND = 1


def a_job(directory: Path, policies: dict[int, Path], **changes: Any) -> Launch:
    prompts = a_prompt_file(directory / "prompts.jsonl")
    data = DataSpec(prompts=str(prompts), max_prompt_tokens=32, max_response_tokens=24)
    return a_launch(
        directory,
        max_staleness=BOUND,
        **{
            "startup_deadline_seconds": 240.0,
            "model": ModelFiles(source=str(policies[0])),
            "data": data,
            "steps": 6,
            **changes,
        },
    )


def a_worker(launch: Launch, *, ordinal: int = 0) -> "asyncio.Task[Ending]":
    mine = replace(launch, role=Role.ROLLOUT, pod_set="rollout-test")
    return asyncio.create_task(work(mine, ordinal=ordinal))


@asynccontextmanager
async def a_coordinator(launch: Launch) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(serve(launch, stop=stop))
    try:
        yield
    finally:
        stop.set()
        await task


@dataclass
class Trainer:
    """Version v of the weights is policy ``v % NUM_POLICIES``, which the reference knows too."""

    launch: Launch
    policies: dict[int, Path]
    batches: list[tuple[int, list[SampledTrajectory]]] = field(default_factory=list)

    def run(self, *, resume: ResumePoint = ResumePoint(), until: int) -> None:  # noqa: B008
        with (
            WeightServer(
                job=self.launch.job, address=self.launch.weights, tls=self.launch.tls
            ) as weights,
            TrainerClient(self.launch, process="trainer-0") as client,
        ):
            self._publish(weights, resume.version)
            client.register(resume)
            for version in range(resume.version, until):
                batch = client.next_batch(version=version)
                self.batches.append((version, batch))
                self._publish(weights, version + 1)
                consumed = [each.id for each in batch]
                client.commit(version=version + 1, consumed=consumed, report=StepReport())
            if until == self.launch.training.steps:
                client.conclude(version=until, ending=Ending(reason=ALL_STEPS_DONE))

    def _publish(self, weights: WeightServer, version: int) -> None:
        file = self.policies[version % NUM_POLICIES] / "model.safetensors"
        weights.publish(Snapshot(version=version, data=file.read_bytes()))


def check_tokens(trainer: Trainer) -> set[int]:
    """Check every token of every batch against its own policy; return the versions seen."""
    seen: set[int] = set()
    by_version = {v: trainer.policies[v % NUM_POLICIES] for v in range(40)}
    for version, batch in trainer.batches:
        for each in batch:
            versions = each.token_versions.tolist()
            seen.update(versions)
            assert versions == sorted(versions)
            assert version - versions[0] <= BOUND
            reference = Reference(
                {v: by_version[v] for v in set(versions)},
                temperature=trainer.launch.algorithm.temperature,
            )
            generation = Generation(
                tokens=tuple(each.response_tokens.tolist()),
                log_probs=tuple(each.behaviour_log_probs.tolist()),
                versions=tuple(versions),
                finish_reason=each.finish_reason,  # type: ignore[arg-type]
            )
            expected = reference.chosen(tuple(each.prompt_tokens.tolist()), generation)
            assert generation.log_probs == pytest.approx(expected, abs=1e-4)
    return seen
