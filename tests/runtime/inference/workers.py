"""Inference workers of the test's own event loop, and as processes."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import torch

from hetrl_core import launch as contract
from hetrl_core.launch import Launch
from hetrl_core.plan.pod_sets import Rank
from hetrl_core.task import Role, Task
from hetrl_runtime.inference.reference import ReferenceModel, place_in_pod
from hetrl_runtime.inference.worker import Models, work
from hetrl_runtime.trainer.processes.peers import Peers
from hetrl_runtime.wire.values import Ending

CPU = torch.device("cpu")
RANK = Rank(
    ordinal=0, local_gpu=0, task=Task.REFERENCE_INFERENCE, replica=0, stage=0, tensor_rank=0
)


def alone(launch: Launch) -> Peers:
    """A pod's only process."""
    return Peers(launch, place=place_in_pod([RANK], RANK), device=CPU)


def a_reference(launch: Launch) -> ReferenceModel:
    """Load the model of a contract, whole."""
    return ReferenceModel(launch, alone(launch), device=CPU)


def an_inference_worker(launch: Launch, *, ordinal: int = 0) -> "asyncio.Task[Ending]":
    """Begin to work for a run, at all that its contract has for such workers."""
    mine = replace(launch, role=Role.INFERENCE, pod_set="inference-test")
    # Now, and not beside others: transformers cannot load two models at once in one process.
    models = Models.load(mine, frozenset(mine.inference_tasks), alone(mine), device=CPU)
    return asyncio.create_task(work(mine, lambda: models, process=f"inference-test-{ordinal}"))


@contextlib.asynccontextmanager
async def an_inference_process(
    launch: Launch, directory: Path, *, ordinal: int = 0
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `hetrl inference` for as long as the block lasts."""
    file = directory / f"inference-{ordinal}.json"
    file.write_text(
        contract.to_json(replace(launch, role=Role.INFERENCE, pod_set="inference-test"))
    )
    program = "from hetrl_runtime.pod_commands.inference import command; command()"
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
