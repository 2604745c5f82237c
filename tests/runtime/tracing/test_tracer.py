"""Traces are an option: what is not asked for is not imported, what is not there is refused."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hetrl_core.job.spec import TracesSpec
from hetrl_core.launch import TERMINAL_EXIT_CODE, Launch, to_json
from hetrl_core.plan.pod_sets import Rank
from hetrl_core.task import Role, Task
from hetrl_runtime.tracing.span import NO_TRACER
from hetrl_runtime.tracing.tracer import tracer_of
from tests.runtime.launches import a_launch

WITHOUT_OPENTELEMETRY = """
import sys

class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Nowhere())
from hetrl_cli.main import main
main()
"""
SAID = (
    "spec.runtime.telemetry.traces needs OpenTelemetry's packages, and opentelemetry is not "
    "installed here: install hetrl[traces], or take the field away"
)


def commanded(launch: Launch, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run a role's command where OpenTelemetry is not installed."""
    file = folder / "launch.json"
    file.write_text(to_json(launch))
    return subprocess.run(
        [
            sys.executable,
            "-c",
            WITHOUT_OPENTELEMETRY,
            launch.role,
            "--launch",
            str(file),
            "--ordinal",
            "0",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def a_rank(task: Task) -> Rank:
    return Rank(ordinal=0, local_gpu=0, task=task, replica=0, stage=0, tensor_rank=0)


@pytest.mark.parametrize(
    ("role", "ranks"),
    [
        (Role.COORDINATOR, ()),
        (Role.ROLLOUT, (a_rank(Task.ACTOR_GENERATION),)),
        (Role.TRAINER, (a_rank(Task.ACTOR_TRAINING),)),
    ],
    ids=str,
)
@pytest.mark.slow
def test_tracer_that_cannot_send_reports_it_once(
    role: Role, ranks: tuple[Rank, ...], tmp_path: Path
) -> None:
    traces = TracesSpec(endpoint="http://127.0.0.1:4318")
    launch = a_launch(tmp_path, role=role, ranks=ranks, traces=traces)

    ended = commanded(launch, tmp_path)

    assert ended.returncode == TERMINAL_EXIT_CODE, ended.stderr
    assert ended.stderr.splitlines()[-1].endswith(SAID)
    assert "Traceback" not in ended.stderr
    if role is Role.COORDINATOR:
        result = json.loads((Path(launch.state_path) / "result.json").read_text())
        assert (result["outcome"], result["reason"]) == ("Failed", "TracesUnavailable")


def test_tracer_without_a_request_traces_nothing(tmp_path: Path) -> None:
    with tracer_of(a_launch(tmp_path), process="coordinator-0") as tracer:
        assert tracer is NO_TRACER


@pytest.mark.parametrize(
    "module",
    [
        "hetrl_runtime.coordinator.server",
        "hetrl_runtime.rollout.loop",
        "hetrl_runtime.trainer.loop",
    ],
)
@pytest.mark.slow
def test_opentelemetry_is_imported_only_on_request(module: str) -> None:
    # transformers looks for it by itself where it is installed.
    code = f"""
import sys, transformers
before = set(sys.modules)
import {module}
print(*(set(sys.modules) - before))
"""
    found = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()

    assert "hetrl_runtime.tracing.span" in found
    assert not [each for each in found if each.startswith("opentelemetry")]
    assert "hetrl_runtime.tracing.recording" not in found
