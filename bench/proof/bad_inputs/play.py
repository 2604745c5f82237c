"""A case as real processes: prepare, run, and compare the end with what is wanted."""

import json
import math
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from safetensors.torch import load_file

from bench.proof.bad_inputs import damage
from bench.proof.bad_inputs.cases import Case, Then
from hetrl_core.task import Task
from hetrl_runtime.tiny.dataset import write_dataset
from hetrl_runtime.tiny.model import make_model
from hetrl_runtime.tiny.task import Split
from tests.cli.plans import write_plan
from tests.cli.running import HETRL, a_job

_JOB: Mapping[str, Any] = {
    "data": {"reward": "regex", "regex": {"pattern": "[4-7]"}},
    "rollouts": 1,
    "gpus": 2,
    "every": 1,
    "steps": 8,
    "globalBatchSize": 16,
    "rate": 1e-6,
}
_APART = (frozenset({Task.ACTOR_GENERATION}), frozenset({Task.ACTOR_TRAINING}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a case ended."""

    seconds: float
    message: str
    """The line of the output that says what is wrong."""

    wrong: tuple[str, ...]
    """Everything that is not as wanted."""


def play(case: Case, folder: Path, *, limit_seconds: float) -> Outcome:
    """Run a case in an empty folder. A command may take ``limit_seconds``, its start included."""
    claim = folder / "claim"
    (folder / "kept").mkdir(parents=True)
    make_model(claim / "model", seed=1, schedule=damage.BRIEF)
    write_dataset(claim / "train.jsonl", count=50, seed=1, split=Split.TRAIN)
    case.damage(claim)
    first = _command(case, folder, case.changes, out=folder / "out")
    if not case.then:
        return _compared(case, folder, *_finish(first, limit_seconds))
    with_steps = {**case.changes, "steps": 10_000}
    process = _start(_command(case, folder, with_steps, out=folder / "out"))
    try:
        _wait_for_step(process, folder / "out", step=3, limit_seconds=limit_seconds)
        if case.then.stops_first:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=limit_seconds)
        second = _second(case, case.then, folder)
        return _compared(case, folder, *_finish(second, limit_seconds))
    finally:
        process.kill()
        process.communicate()


def _second(case: Case, then: Then, folder: Path) -> tuple[list[str], Mapping[str, str]]:
    then.damage(folder / "claim")
    out = folder / ("out" if then.shares_folder else "second")
    words, environment = _command(case, folder, then.changes, out=out)
    return [*words, *then.options], environment


def _command(
    case: Case, folder: Path, changes: Mapping[str, Any], *, out: Path
) -> tuple[list[str], Mapping[str, str]]:
    job = a_job(**_merged(_JOB, changes))
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    (folder / "patch").mkdir(exist_ok=True)
    (folder / "patch/sitecustomize.py").write_text(case.patch)
    words = [str(HETRL), "run", str(folder / "job.yaml"), "--out", str(out)]
    words += ["--no-tls", "--no-display", "--claim", f"data={folder / 'claim'}"]
    words += ["--claim", f"kept={folder / 'kept'}"]
    if case.stages:
        layers = sum(case.stages)
        words += write_plan(folder, _APART, num_layers=layers, training_stages=case.stages)
    return words, os.environ | {"PYTHONPATH": str(folder / "patch")}


def _merged(job: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    data = {**job["data"], **changes.get("data", {})}
    kept = {name: each for name, each in data.items() if each is not None}
    return {**job, **changes, "data": kept}


def _start(command: tuple[list[str], Mapping[str, str]]) -> "subprocess.Popen[str]":
    words, environment = command
    return subprocess.Popen(
        words,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def _finish(
    command: tuple[list[str], Mapping[str, str]], limit_seconds: float
) -> tuple[int | None, str, float]:
    """Return exit code (None: it did not end in time), output and seconds."""
    began = time.monotonic()
    process = _start(command)
    try:
        said, _ = process.communicate(timeout=limit_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return None, process.communicate()[0], limit_seconds
    return process.returncode, said, time.monotonic() - began


def _wait_for_step(
    process: "subprocess.Popen[str]", out: Path, *, step: int, limit_seconds: float
) -> None:
    ends_at = time.monotonic() + limit_seconds
    file = out / "state/coordinator-0/progress.json"
    while not file.exists() or json.loads(file.read_text())["step"] < step:
        if process.poll() is not None or time.monotonic() > ends_at:
            raise RuntimeError(f"the first run did not reach step {step}")
        time.sleep(0.2)


def _compared(case: Case, folder: Path, code: int | None, said: str, seconds: float) -> Outcome:
    logs = "\n".join(file.read_text() for file in sorted(folder.glob("*/logs/*.log")))
    return Outcome(
        seconds=seconds,
        message=_message(case, said, logs),
        wrong=tuple(_wrong(case, folder, code, said, logs)),
    )


def _message(case: Case, said: str, logs: str) -> str:
    lines = [*reversed(said.splitlines()), *reversed(logs.splitlines())]
    return next((each for each in lines if re.search(case.says[0], each)), lines[0]).strip()


def _wrong(case: Case, folder: Path, code: int | None, said: str, logs: str) -> Iterator[str]:
    if code is None:
        yield "did not end in time"
    elif (code == 0) != case.succeeds:
        yield f"ended with exit code {code}: {said[-500:]}"
    for pattern in case.says:
        if not re.search(pattern, f"{said}\n{logs}"):
            yield f"nothing says {pattern!r}: {said[-500:]}"
    if "Traceback" in said:
        yield "a traceback in the output"
    yield from _not_finite(folder)


def _not_finite(folder: Path) -> Iterator[str]:
    for file in sorted(folder.glob("*/checkpoints/step-*/*.safetensors")):
        for name, tensor in load_file(file).items():
            if not math.isfinite(float(tensor.double().abs().sum())):
                yield f"{file.parent.name}: {name} is not finite"


def empty(folder: Path) -> Path:
    """Return a folder that nothing is in."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder
