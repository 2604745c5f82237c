"""Launch contracts on this machine's loopback, for tests with real sockets."""

import json
from pathlib import Path
from typing import Any

from hetrl_cli.run.setup.ports import free_ports
from hetrl_core.job.algorithm import AlgorithmSpec
from hetrl_core.job.spec import DataSpec, Engine, ModelFiles, TrainingSpec
from hetrl_core.launch import Address, JobIdentity, Launch
from hetrl_core.task import Role


def a_launch(
    directory: Path,
    *,
    role: Role = Role.COORDINATOR,
    steps: int = 3,
    max_staleness: int = 1,
    group_size: int = 2,
    global_batch_size: int = 4,
    startup_deadline_seconds: float = 30.0,
    **changes: Any,
) -> Launch:
    """A contract for a small run; its ports are free at the moment."""
    values: dict[str, Any] = {
        "job": JobIdentity(namespace="default", name="sums", uid="0b1c"),
        "pod_set": f"{role}-test",
        "role": role,
        "max_concurrent": 64,
        "concurrency": 8,
        "listen_host": "127.0.0.1",
        "coordinator": Address(host="127.0.0.1", port=free_port()),
        "weights": Address(host="127.0.0.1", port=free_port()),
        "rendezvous": Address(host="127.0.0.1", port=free_port()),
        "metrics_port": 0,
        "model": ModelFiles(source=str(directory / "model")),
        "engine": Engine.TRANSFORMERS,
        "algorithm": AlgorithmSpec(
            max_staleness=max_staleness, group_size=group_size, global_batch_size=global_batch_size
        ),
        "data": DataSpec(prompts=str(a_prompt_file(directory / "prompts.jsonl"))),
        "training": TrainingSpec(steps=steps),
        "state_path": str(directory / "state"),
        "checkpoint_path": str(directory / "checkpoints"),
        "startup_deadline_seconds": startup_deadline_seconds,
    }
    return Launch(**{**values, **changes})


def a_prompt_file(path: Path, *, num_prompts: int = 16) -> Path:
    """A file of small sums."""
    lines = (
        json.dumps({"question": f"What is {n} + 1?", "answer": f"#### {n + 1}"})
        for n in range(num_prompts)
    )
    path.write_text("\n".join(lines) + "\n")
    return path


def free_port() -> int:
    """A port that nothing takes by chance, though the process that is to have it is yet to come."""
    (port,) = free_ports(1)
    return port
