"""A coordinator's process as a pod would start it, pinned to a core, and what it costs.

Certificates are those that the operator issues for a job. Who calls the coordinator is
``load``'s.
"""

import asyncio
import contextlib
import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from hetrl_cli.run.setup.ports import LOOPBACK, free_ports
from hetrl_core import launch as contract
from hetrl_core.job.algorithm import AlgorithmSpec
from hetrl_core.job.spec import DataSpec, Engine, ModelFiles, TrainingSpec
from hetrl_core.launch import Address, JobIdentity, Launch, TlsFiles
from hetrl_core.task import Role
from hetrl_operator.render.tls import issue
from hetrl_runtime.transport.channel import open_channel
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.hetrl_pb2_grpc import CoordinatorStub

NUM_WORKERS = 64
LEASE_TRAJECTORIES = 64
"""A worker's places: what it asks for at once."""

GROUP_SIZE = 8
BATCH_SIZE = 1024
MAX_STALENESS = 4
_MANY_STEPS = 1_000_000
_NUM_PROMPTS = 4096
_START_SECONDS = 60.0
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@cache
def cores() -> tuple[int, int]:
    """Return the core of what is measured, and that of what calls it; alike where there is one.

    Asked once: afterwards this process has only the second.
    """
    available = sorted(os.sched_getaffinity(0))
    return available[0], available[-1]


def launch_in(folder: Path) -> Launch:
    """Return the coordinator's contract, with everything that it names in a folder."""
    prompts = folder / "prompts.jsonl"
    prompts.write_text(
        "".join(
            json.dumps({"question": f"What is {n} + 1?", "answer": f"#### {n + 1}"}) + "\n"
            for n in range(_NUM_PROMPTS)
        )
    )
    ports = [Address(host=LOOPBACK, port=port) for port in free_ports(3)]
    return Launch(
        job=JobIdentity(namespace="default", name="wire", uid="wire"),
        pod_set="coordinator",
        role=Role.COORDINATOR,
        num_rollout_pods=NUM_WORKERS,
        max_concurrent=2 * NUM_WORKERS * LEASE_TRAJECTORIES,
        listen_host=LOOPBACK,
        coordinator=ports[0],
        weights=ports[1],
        rendezvous=ports[2],
        metrics_port=0,
        model=ModelFiles(source=str(folder / "model")),
        engine=Engine.TRANSFORMERS,
        algorithm=AlgorithmSpec(
            max_staleness=MAX_STALENESS, group_size=GROUP_SIZE, global_batch_size=BATCH_SIZE
        ),
        data=DataSpec(prompts=str(prompts)),
        training=TrainingSpec(steps=_MANY_STEPS),
        state_path=str(folder / "state"),
        checkpoint_path=str(folder / "checkpoints"),
        tls=certificates(folder)[Role.COORDINATOR],
    )


def certificates(folder: Path) -> dict[Role, TlsFiles]:
    """Issue a job's certificates as the operator does, into a folder."""
    now = datetime.datetime.now(datetime.UTC)
    for name, content in (
        issue(seed=os.urandom(32), job="wire", dns_names=(), now=now).files().items()
    ):
        (folder / name).write_bytes(content)
    return {
        role: TlsFiles(
            ca=str(folder / "ca.crt"),
            certificate=str(folder / f"{role}.crt"),
            key=str(folder / f"{role}.key"),
        )
        for role in Role
    }


def as_role(launch: Launch, role: Role) -> Launch:
    """Return the contract of another role of the same job."""
    folder = Path(launch.state_path).parent
    tls = TlsFiles(
        ca=str(folder / "ca.crt"),
        certificate=str(folder / f"{role}.crt"),
        key=str(folder / f"{role}.key"),
    )
    return replace(launch, role=role, pod_set=f"{role}-wire", tls=tls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a process has used and holds at a moment."""

    cpu_seconds: float
    resident_bytes: int
    journal_bytes: int


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A running coordinator."""

    launch: Launch
    pid: int

    def cost(self) -> Cost:
        """Read what the coordinator has used so far."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        resident = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        files = Path(self.launch.state_path).glob("journal-*")
        return Cost(
            cpu_seconds=cpu_seconds(self.pid),
            resident_bytes=int(resident.split()[1]) * 1024,
            journal_bytes=sum(each.stat().st_size for each in files),
        )


@contextlib.contextmanager
def peer(module: str, *arguments: str, core: int) -> Iterator[int]:
    """Run a module that says when it is ready and ends with its standard input; yield its pid."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    os.sched_setaffinity(process.pid, {core})
    assert process.stdin
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    try:
        yield process.pid
    finally:
        process.stdin.close()
        process.wait()


@contextlib.contextmanager
def coordinator(core: int) -> Iterator[Stage]:
    """Start a coordinator on a core, wait until it answers, and stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="hetrl-wire-") as name:
        launch = launch_in(Path(name))
        file = Path(name) / "launch.json"
        file.write_text(contract.to_json(launch))
        with (Path(name) / "coordinator.log").open("w") as log:
            hetrl = str(Path(sys.executable).with_name("hetrl"))
            process = subprocess.Popen(
                [hetrl, "coordinator", "--launch", str(file)],
                stdout=log,
                stderr=log,
            )
            os.sched_setaffinity(process.pid, {core})
            try:
                asyncio.run(_answers(as_role(launch, Role.ROLLOUT)))
                yield Stage(launch=launch, pid=process.pid)
            except Exception:
                sys.stderr.write((Path(name) / "coordinator.log").read_text()[-4000:])
                raise
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait()


async def _answers(launch: Launch) -> None:
    asks = as_role(launch, Role.ROLLOUT)
    async with open_channel(asks.coordinator, asks.tls, program=Role.COORDINATOR) as channel:
        await CoordinatorStub(channel).GetProgress(
            pb.ProgressRequest(), wait_for_ready=True, timeout=_START_SECONDS
        )
