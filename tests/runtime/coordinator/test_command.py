"""The coordinator as a process: how it ends, what it needs, and what it serves."""

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from hetrl_core import launch as contract
from hetrl_core.launch import Launch
from tests.runtime.launches import a_launch, free_port

# Each of them starts an interpreter.
pytestmark = pytest.mark.slow

PROGRAM = "from hetrl_runtime.coordinator.command import command; command()"


def a_process(launch: Launch, directory: Path) -> "subprocess.Popen[str]":
    launch_file = directory / "launch.json"
    launch_file.write_text(contract.to_json(launch))
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "--launch", str(launch_file)],
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until_it_listens(launch: Launch) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex((launch.coordinator.host, launch.coordinator.port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("the coordinator does not listen")


def test_sigterm_stops_it_without_a_result(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)
    process = a_process(launch, tmp_path)
    wait_until_it_listens(launch)

    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)

    assert process.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in said
    assert json.loads((tmp_path / "state" / "progress.json").read_text())["finished"] is False
    assert not (tmp_path / "state" / "result.json").exists()


def test_a_run_that_cannot_go_on_ends_with_3_and_its_reason_last(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)
    Path(launch.data.prompts).unlink()
    process = a_process(launch, tmp_path)

    _, said = process.communicate(timeout=60)

    assert process.returncode == 3
    assert said.splitlines()[-1] == (
        f"DataInvalid: cannot read prompts from {launch.data.prompts}: No such file or directory"
    )
    result = json.loads((tmp_path / "state" / "result.json").read_text())
    assert (result["outcome"], result["reason"]) == ("Failed", "DataInvalid")


@pytest.mark.parametrize("taken", ["coordinator", "metrics"])
def test_a_taken_port_is_named_without_a_traceback(tmp_path: Path, taken: str) -> None:
    launch = a_launch(tmp_path, metrics_port=free_port())
    port = launch.coordinator.port if taken == "coordinator" else launch.metrics_port
    with socket.create_server(("127.0.0.1", port)):
        process = a_process(launch, tmp_path)
        _, said = process.communicate(timeout=60)

    assert process.returncode == 1
    assert f"127.0.0.1:{port}" in said.splitlines()[-1]
    assert "Traceback" not in said


def test_a_broken_contract_is_said_to_be(tmp_path: Path) -> None:
    launch = replace(a_launch(tmp_path), contract_version=99)

    _, said = (process := a_process(launch, tmp_path)).communicate(timeout=60)

    assert process.returncode == 1
    assert "contract_version must be" in said.splitlines()[-1]


def test_prometheus_finds_every_series_at_zero(tmp_path: Path) -> None:
    launch = a_launch(tmp_path, metrics_port=free_port(), predicted_step_seconds=2.5)
    process = a_process(launch, tmp_path)
    try:
        wait_until_it_listens(launch)
        with urllib.request.urlopen(f"http://127.0.0.1:{launch.metrics_port}/metrics") as reply:
            text = reply.read().decode()
    finally:
        process.terminate()
        process.communicate(timeout=60)

    for line in (
        'hetrl_sample_staleness_versions_bucket{le="16.0"} 0.0',
        'hetrl_trajectories_total{outcome="accepted"} 0.0',
        'hetrl_trajectories_total{outcome="stale"} 0.0',
        "hetrl_buffer_trajectories 0.0",
        "hetrl_leased_trajectories 0.0",
        "hetrl_reward_mean 0.0",
        "hetrl_plan_predicted_step_seconds 2.5",
    ):
        assert line in text


@pytest.mark.parametrize(
    "module",
    [
        "hetrl_runtime.coordinator.command",
        "hetrl_runtime.transport.coordinator_client",
        "hetrl_runtime.transport.weights",
    ],
)
def test_it_runs_without_the_trainers_packages(module: str) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )

    found = {"torch", "transformers", "vllm", "math_verify", "sympy", "kopf", "kubernetes"}
    assert not found & set(loaded.stdout.split())
