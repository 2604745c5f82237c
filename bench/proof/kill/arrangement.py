"""A small job as processes that can be started, with contracts, certificates and a plan.

All of it as `hetrl run` makes it. Where a case puts a relay between two processes, the contract
of the one that dials names the relay's port.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from hetrl_cli.run.folder import RunFolder
from hetrl_cli.run.prepare import Experiment, planned, prepare
from hetrl_cli.run.process import Command
from hetrl_cli.run.start import fill
from hetrl_core.launch import Address, Launch, from_json, to_json
from hetrl_core.plan import Plan, Replica, Share
from hetrl_core.task import Task
from hetrl_runtime.tiny.dataset import write_dataset
from hetrl_runtime.tiny.task import Split

GROUP_SIZE = 8
BATCH_SIZE = 64
MAX_STALENESS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """How much a run does, and how often it saves."""

    steps: int
    checkpoint_every_steps: int = 2
    learning_rate: float = 1e-4
    patience_seconds: float = 120.0
    """Of the processes with each other: their start-up deadline."""

    are_weights_broadcast: bool = False
    """To both rollouts at once, over gloo; else each fetches them."""

    has_inference: bool = False
    """Whether a reference scores, in two processes of its own."""


def make_claim(folder: Path, *, warm_up_steps: int = 600) -> Path:
    """Make the model and its problems once; what is there already stays."""
    if not (folder / "held-out.jsonl").exists():
        # They import PyTorch, which whoever only watches processes need not wait for.
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
    plan = planned(prepared)
    if work.has_inference:
        plan = _apart(plan)
    return folder, fill(folder, prepared, plan, resumed=resumed, encrypted=True)


def _apart(plan: Plan) -> Plan:
    """Give the trainer's reference two GPUs of its own, which no fleet has: processes need none."""
    (trainer,) = plan.groups_with(Task.ACTOR_TRAINING)
    reference = replace(
        trainer,
        tasks=(Task.REFERENCE_INFERENCE,),
        training_mode=None,
        replicas=tuple(
            Replica(shares=(Share(machine=f"spare-{number}", num_gpus=1),), work_share=0.5)
            for number in range(2)
        ),
    )
    others = tuple(each for each in plan.groups if each is not trainer)
    alone = replace(trainer, tasks=(Task.ACTOR_TRAINING,))
    return replace(plan, groups=(alone, *others, reference))


def launch_of(folder: RunFolder, process: str) -> Launch:
    """Return what a process is told."""
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
                "reward": "exact", "maxPromptTokens": 16, "maxResponseTokens": 8,
            },
            "algorithm": {
                "maxStaleness": MAX_STALENESS, "groupSize": GROUP_SIZE,
                "globalBatchSize": BATCH_SIZE, "minibatches": 2, "behaviourWeightCap": 2,
                "klCoefficient": 1e-3 if work.has_inference else 0.0,
            },
            "training": {
                "steps": work.steps, "learningRate": work.learning_rate,
                "checkpointEverySteps": work.checkpoint_every_steps,
            },
            # Every checkpoint stays, so that each can be held against what was published.
            "storage": {"checkpoints": {"keepLast": 1000}},
            "resources": {"maxGPUs": 3},
            "rollout": {"replicas": 2},
            "startupDeadlineSeconds": int(work.patience_seconds),
            "runtime": {
                "engine": "transformers",
                "transport": {"weights": "Nccl" if work.are_weights_broadcast else "Grpc"},
            },
        },
    }  # fmt: skip
