"""The coordinator as a process: how it ends, what it needs, and what it serves."""

import asyncio
import contextlib
import json
import resource
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
from hetrl_core.job.spec import HubDataset, ObjectStore
from hetrl_core.launch import Launch
from hetrl_runtime.coordinator.journal.journal import read
from hetrl_runtime.transport.clients.coordinator_client import TrainerClient, WorkerClient
from hetrl_runtime.transport.errors import TransportError
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.trajectory import TrajectoryId
from hetrl_runtime.wire.values import Outcome, ResumePoint
from tests.runtime.data import hub_server, store_server
from tests.runtime.launches import a_launch, free_port
from tests.runtime.trajectories import a_trajectory

# Each of them starts an interpreter.
pytestmark = pytest.mark.slow

PROGRAM = "from hetrl_runtime.pod_commands.coordinator import command; command()"


def a_process(
    launch: Launch, directory: Path, *, longest_file_bytes: int = resource.RLIM_INFINITY
) -> "subprocess.Popen[str]":
    launch_file = directory / "launch.json"
    launch_file.write_text(contract.to_json(launch))
    limited = (
        f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({longest_file_bytes},) * 2)"
    )
    return subprocess.Popen(
        [sys.executable, "-c", f"{limited}; {PROGRAM}", "--launch", str(launch_file)],
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


def test_run_that_fails_for_good_ends_with_3_and_reason(tmp_path: Path) -> None:
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


def test_prompts_come_from_a_data_set_of_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = a_launch(tmp_path)
    prompts = Path(launch.data.prompts).read_bytes()
    dataset = HubDataset(name=hub_server.NAME)
    data = replace(launch.data, prompts="main/train.jsonl", dataset=dataset)
    with hub_server.served() as (hub, address):
        hub.publish("1" * 40, **{"main/train.jsonl": prompts})
        monkeypatch.setenv("HF_ENDPOINT", address)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
        process = a_process(replace(launch, data=data), tmp_path)
        wait_until_it_listens(launch)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)

    assert process.returncode == 128 + signal.SIGTERM, said
    assert json.loads((tmp_path / "state" / "dataset.json").read_text())["commit"] == "1" * 40


def test_prompts_come_from_an_object_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = a_launch(tmp_path)
    prompts = Path(launch.data.prompts).read_bytes()
    source = ObjectStore(url=f"s3://{store_server.BUCKET}")
    data = replace(launch.data, prompts="math/train.jsonl", dataset=source)
    with store_server.served() as (bucket, address):
        bucket.objects["math/train.jsonl"] = prompts
        for name, value in store_server.environment(address).items():
            monkeypatch.setenv(name, value)
        process = a_process(replace(launch, data=data), tmp_path)
        wait_until_it_listens(launch)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)

    assert process.returncode == 128 + signal.SIGTERM, said
    assert (tmp_path / "state" / "objects" / "math" / "train.jsonl").read_bytes() == prompts


def test_coordinator_waiting_for_the_hub_can_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = a_launch(tmp_path)
    data = replace(launch.data, dataset=HubDataset(name=hub_server.NAME))
    with hub_server.served() as (hub, address):
        hub.status = [503] * 1000
        monkeypatch.setenv("HF_ENDPOINT", address)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
        process = a_process(replace(launch, data=data), tmp_path)
        deadline = time.monotonic() + 60
        while not hub.asked and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)

    assert hub.asked, said
    assert process.returncode == 128 + signal.SIGTERM, said
    assert not (tmp_path / "state" / "result.json").exists()


@pytest.mark.parametrize("taken", ["coordinator", "metrics"])
def test_taken_port_is_named_without_a_traceback(tmp_path: Path, taken: str) -> None:
    launch = a_launch(tmp_path, metrics_port=free_port())
    port = launch.coordinator.port if taken == "coordinator" else launch.metrics_port
    with socket.create_server(("127.0.0.1", port)):
        process = a_process(launch, tmp_path)
        _, said = process.communicate(timeout=60)

    assert process.returncode == 1
    assert f"127.0.0.1:{port}" in said.splitlines()[-1]
    assert "Traceback" not in said


def test_contract_of_another_version_is_reported(tmp_path: Path) -> None:
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
        "hetrl_runtime.pod_commands.coordinator",
        "hetrl_runtime.transport.clients.coordinator_client",
        "hetrl_runtime.transport.weights.weights",
    ],
)
def test_coordinator_runs_without_the_trainers_packages(module: str) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )

    found = {"torch", "transformers", "vllm", "math_verify", "sympy", "kopf", "kubernetes"}
    assert not found & set(loaded.stdout.split())


async def test_full_disk_names_the_journal_and_loses_nothing_acknowledged(
    tmp_path: Path,
) -> None:
    launch = a_launch(tmp_path, steps=1000, max_staleness=500)
    (tmp_path / "state").mkdir()
    process = a_process(launch, tmp_path, longest_file_bytes=60_000)
    wait_until_it_listens(launch)
    acknowledged = set[TrajectoryId]()
    with TrainerClient(launch, process="trainer-0") as trainer:
        trainer.register(ResumePoint())
        async with WorkerClient(launch, process="rollout-0") as worker:
            try:
                async with asyncio.timeout(60):
                    while process.poll() is None:
                        await lease_and_deliver(worker, acknowledged)
            except TransportError:
                pass
            _, said = await asyncio.to_thread(process.communicate, timeout=60)
            again = a_process(launch, tmp_path)
            wait_until_it_listens(launch)
            again.send_signal(signal.SIGTERM)
            again.communicate(timeout=60)

    assert process.returncode == 1
    assert "the journal cannot be written: File too large" in said.splitlines()[-1]
    assert str(tmp_path / "state" / "journal-") in said.splitlines()[-1]
    # The entry that did not fit is cut off, and kept beside the journal.
    (damaged,) = (tmp_path / "state").glob("journal-*.damaged-1")
    journal = damaged.with_suffix("")
    kept = {
        TrajectoryId(message.group, message.member)
        for entry in read(journal)
        if entry.HasField("accepted")
        for message in [pb.Trajectory.FromString(entry.accepted)]
    }
    assert acknowledged
    assert acknowledged <= kept


async def lease_and_deliver(worker: WorkerClient, acknowledged: "set[TrajectoryId]") -> None:
    """Work off one lease; the process may end meanwhile."""
    epoch = worker.registration.epoch
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(2):
            for lease in await worker.lease(version=0, max_trajectories=8):
                for identity in lease.ids:
                    trajectory = a_trajectory(*identity, epoch=epoch, process="rollout-0")
                    if await worker.deliver(trajectory) is Outcome.ACCEPTED:
                        acknowledged.add(identity)
