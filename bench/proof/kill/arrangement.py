"""A small job as processes that can be started, with contracts, certificates and a plan.

All of it as `hetrl run` makes it. Where a case puts a relay between two processes, the contract
of the one that dials names the relay's port.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from hetrl_cli.run.processes.process import Command
from hetrl_cli.run.setup.folder import RunFolder
from hetrl_cli.run.setup.prepare import Experiment, make_plan, prepare
from hetrl_cli.run.start import fill
from hetrl_core.launch import Address, Launch, from_json, to_json
from hetrl_core.plan.plan import Parallelism, Plan, Replica, ReplicaGroup, Share
from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_runtime.tiny.dataset import write_dataset
from hetrl_runtime.tiny.task import Split

GROUP_SIZE = 8
BATCH_SIZE = 64
MAX_STALENESS = 2


class Layout(StrEnum):
    """Which tasks share GPUs."""

    USUAL = "usual"
    """Those that generate, and one that does all else."""

    REFERENCE_APART = "reference apart"
    """A reference scores on two GPUs of its own."""

    CRITIC_APART = "critic apart"
    """PPO's critic is trained on a GPU of its own."""

    SHARED = "shared"
    """Two GPUs train and generate, each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """How much a run does, and how often it saves."""

    steps: int
    checkpoint_every_steps: int = 2
    learning_rate: float = 1e-4
    timeout_seconds: float = 120.0
    """Of the processes with each other: their start-up deadline."""

    are_weights_broadcast: bool = False
    """To both rollouts at once, over gloo; else each fetches them."""

    layout: Layout = Layout.USUAL


def make_claim(folder: Path, *, warm_up_steps: int = 600) -> Path:
    """Make the model and its problems once; what is there already stays."""
    if not (folder / "held-out.jsonl").exists():
        # They import PyTorch, which a process that only watches others need not wait for.
        from hetrl_runtime.tiny.model import make_model  # noqa: PLC0415
        from hetrl_runtime.tiny.warm_up import WarmUp  # noqa: PLC0415

        folder.mkdir(parents=True, exist_ok=True)
        make_model(folder / "model", seed=1, schedule=WarmUp(steps=warm_up_steps))
        write_dataset(folder / "train.jsonl", count=3000, seed=1, split=Split.TRAIN)
        write_dataset(folder / "held-out.jsonl", count=1000, seed=1, split=Split.HELD_OUT)
    return folder


def arrange(
    out: Path, claim: Path, work: Work, *, resumed: bool = False
) -> tuple[RunFolder, tuple[Command, ...]]:
    """Fill a run's folder; return it, and what to start."""
    folder = RunFolder(path=out.resolve())
    job = out.parent / f"{out.name}.yaml"
    out.parent.mkdir(parents=True, exist_ok=True)
    job.write_text(yaml.safe_dump(_job(work)))
    prepared = prepare(
        job, topology=None, claims={"data": claim.resolve()}, experiment=Experiment()
    )
    plan = _laid(make_plan(prepared), work.layout)
    return folder, fill(folder, prepared, plan, resumed=resumed, encrypted=True)


def _laid(plan: Plan, layout: Layout) -> Plan:
    """Give tasks GPUs as a layout says, whatever the planner thinks best for what is so small.

    The machines are of no fleet: processes need none.
    """
    tasks = tuple(task for task in Task if plan.groups_with(task))
    parted, num_parted = _PARTED[layout]
    generates = () if layout is Layout.SHARED else (Task.ACTOR_GENERATION,)
    left = tuple(task for task in tasks if task not in {*generates, *parted})
    wanted = (
        (left, 2 if layout is Layout.SHARED else 1),
        (generates, 2),
        (parted, num_parted),
    )
    machines = (f"spare-{number}" for number in count())
    return replace(
        plan,
        groups=tuple(
            _group(plan, each, [next(machines) for _ in range(number)])
            for each, number in wanted
            if each
        ),
    )


_PARTED: Mapping[Layout, tuple[tuple[Task, ...], int]] = {
    Layout.USUAL: ((), 0),
    Layout.SHARED: ((), 0),
    Layout.REFERENCE_APART: ((Task.REFERENCE_INFERENCE,), 2),
    Layout.CRITIC_APART: ((Task.CRITIC_INFERENCE, Task.CRITIC_TRAINING), 1),
}
"""What trains no longer does, and on how many GPUs it is done instead."""


def _group(plan: Plan, tasks: tuple[Task, ...], machines: list[str]) -> ReplicaGroup:
    """Return tasks on machines of one GPU each."""
    trains, generates = (
        plan.groups_with(each)[0] for each in (Task.ACTOR_TRAINING, Task.ACTOR_GENERATION)
    )
    num_layers = sum(trains.parallelism.stage_layers)
    return replace(
        trains,
        tasks=tasks,
        parallelism=Parallelism(tensor=1, stage_layers=(num_layers,)),
        replicas=tuple(
            Replica(shares=(Share(machine=each, num_gpus=1),), work_share=1 / len(machines))
            for each in machines
        ),
        training_mode=trains.training_mode if TRAINING_TASKS.intersection(tasks) else None,
        concurrency=generates.concurrency if Task.ACTOR_GENERATION in tasks else 0,
    )


def launch_of(folder: RunFolder, process: str) -> Launch:
    """Return a process's launch contract."""
    return from_json((folder.contracts / f"{process}.json").read_text())


def redirect(folder: RunFolder, process: str, addresses: Mapping[str, Address]) -> None:
    """Let a process dial others than it would: ``coordinator`` or ``weights``, by field."""
    changed = replace(launch_of(folder, process), **addresses)  # type: ignore[arg-type]
    (folder.contracts / f"{process}.json").write_text(to_json(changed))


def _job(work: Work) -> dict[str, Any]:
    return {
        "apiVersion": "hetrl.dev/v1alpha1",
        "kind": "HetRLJob",
        "metadata": {"name": "sums"},
        "spec": {
            "model": {"source": {"claim": {"name": "data", "path": "model"}}},
            "data": {
                "prompts": {"claim": {"name": "data", "path": "train.jsonl"}},
                "reward": "exact",
                "maxPromptTokens": 16,
                "maxResponseTokens": 8,
            },
            "algorithm": {
                "maxStaleness": MAX_STALENESS,
                "groupSize": GROUP_SIZE,
                "globalBatchSize": BATCH_SIZE,
                "minibatches": 2,
                "behaviourWeightCap": 2,
                "type": "PPO" if work.layout is Layout.CRITIC_APART else "GRPO",
                "klCoefficient": 1e-3 if work.layout is Layout.REFERENCE_APART else 0.0,
            },
            "training": {
                "steps": work.steps,
                "learningRate": work.learning_rate,
                "checkpointEverySteps": work.checkpoint_every_steps,
            },
            # Every checkpoint stays, so that each can be held against what was published.
            "storage": {"checkpoints": {"keepLast": 1000}},
            "resources": {"maxGPUs": 3},
            "rollout": {"replicas": 2},
            "startupDeadlineSeconds": int(work.timeout_seconds),
            "runtime": {
                "engine": "transformers",
                "transport": {"weights": "Nccl" if work.are_weights_broadcast else "Grpc"},
            },
        },
    }
