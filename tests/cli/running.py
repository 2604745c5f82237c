"""One `hetrl run` from the outside: its job, its processes and what it wrote so far."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

HETRL = Path(sys.executable).parent / "hetrl"
STEPS = 40
TIMEOUT_SECONDS = 500.0


class Run:
    """One `hetrl run`, and what it wrote so far."""

    def __init__(self, folder: Path, claim: Path, *options: str, **changes: Any) -> None:
        self.out = folder / "out"
        job = folder / "job.yaml"
        job.write_text(yaml.safe_dump(a_job(**changes)))
        self.process = subprocess.Popen(
            [HETRL, "run", job, "--out", self.out, "--claim", f"data={claim}", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @property
    def steps(self) -> list[dict[str, Any]]:
        """Every step that was committed, those of a lost history included."""
        path = self.out / "state/coordinator-0/steps.jsonl"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.rpartition("\n")[0].splitlines()]

    @property
    def result(self) -> dict[str, Any]:
        """How the coordinator says that the run ended."""
        text = (self.out / "state/coordinator-0/result.json").read_text()
        return dict(json.loads(text))

    def wait_for_step(self, step: int) -> None:
        self.wait_until(lambda: any(each["step"] >= step for each in self.steps))

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            # Asked before the look: a run may end between the two.
            runs = self.process.poll() is None
            if condition():
                return
            assert runs, f"ended too early: {self.finish()[1]}"
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.1)

    def finish(self) -> tuple[int, str]:
        """Wait for the end; return exit code and all that was said."""
        said, _ = self.process.communicate(timeout=TIMEOUT_SECONDS)
        return self.process.returncode, said

    def pids(self, pod: str = "") -> list[int]:
        """Return the processes that were started with contracts of this run."""
        contract = f"{self.out}/launch/{pod}".encode()
        return [
            int(path.parent.name)
            for path in Path("/proc").glob("[0-9]*/cmdline")
            if contract in _command_line(path)
        ]

    def kill(self, pod: str) -> None:
        """Kill a process as the kernel does when memory runs out."""
        for pid in self.pids(pod):
            os.kill(pid, signal.SIGKILL)


def a_job(
    *,
    prompts: str = "train.jsonl",
    model: str = "model",
    data: Mapping[str, Any] | None = None,
    steps: int = STEPS,
    every: int = 10,
    rate: float = 1e-4,
    weights: str = "Grpc",
    rollouts: int = 2,
    gpus: int = 3,
    storage: Mapping[str, Any] | None = None,
    **algorithm: Any,
) -> dict[str, Any]:
    return {
        "apiVersion": "hetrl.dev/v1alpha1",
        "kind": "HetRLJob",
        "metadata": {"name": "sums"},
        "spec": {
            "model": {"source": {"claim": {"name": "data", "path": model}}},
            "data": {
                "prompts": {"claim": {"name": "data", "path": prompts}},
                "reward": "exact",
                "maxPromptTokens": 16,
                "maxResponseTokens": 8,
                **(data or {}),
            },
            "algorithm": {"maxStaleness": 2, "groupSize": 8, "globalBatchSize": 64, **algorithm},
            "training": {"steps": steps, "learningRate": rate, "checkpointEverySteps": every},
            "storage": storage or {},
            "resources": {"maxGPUs": gpus},
            "rollout": {"replicas": rollouts},
            "runtime": {"engine": "transformers", "transport": {"weights": weights}},
        },
    }


def _command_line(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def largest_staleness(run: Run) -> int:
    return max(int(age) for step in run.steps for age in step["staleness"])
