"""One version to several workers: each fetches it, or it is broadcast to all at once.

The trainer's server has one core, all workers share the other, each a process. A version is there
when the last worker has it, whole and checked. The first two are not counted: in them processes
start, and the members of a broadcast meet.
"""

import asyncio
import itertools
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.wire.stage import as_role, cores, launch_in
from hetrl_core import launch as contract
from hetrl_core.job.spec import WeightTransport
from hetrl_core.launch import Launch
from hetrl_core.task import Role
from hetrl_runtime.broadcast.receiver import Receiver
from hetrl_runtime.broadcast.sender import Sender
from hetrl_runtime.compute import memory
from hetrl_runtime.compute.buffers import Buffers
from hetrl_runtime.transport.weights.fetching import fetch_weights
from hetrl_runtime.transport.weights.weights import Snapshot, WeightServer

NUM_READERS = (1, 2, 4)
_MODULE = "bench.wire.readers"
_NUM_VERSIONS = 6
_NUM_UNCOUNTED = 2


def trainer(launch_file: str, num_bytes: str) -> None:
    """Publish another version for each line that comes, and print when and what it cost so far."""
    launch = contract.from_json(Path(launch_file).read_text())
    data = os.urandom(1 << 20) * (int(num_bytes) >> 20)
    server = WeightServer(job=launch.job, address=launch.weights, tls=launch.tls)
    broadcasts = launch.weight_transport is WeightTransport.NCCL
    sender = Sender(launch, server) if broadcasts else nullcontext()
    with server, sender:
        print("ready", flush=True)
        for version, _ in enumerate(sys.stdin, start=1):
            print(time.monotonic(), _cpu_seconds(), flush=True)
            server.publish(Snapshot(version=version, data=data))
        print(0.0, _cpu_seconds(), flush=True)


def worker(launch_file: str, process: str, num_versions: str) -> None:
    """Take version after version, and print of each when it was there and what it cost so far."""
    launch = contract.from_json(Path(launch_file).read_text())
    asyncio.run(_take(launch, process, int(num_versions)))


async def _take(launch: Launch, process: str, num_versions: int) -> None:
    receiver = Receiver(launch, process=process)
    buffers = Buffers()
    broadcasts = launch.weight_transport is WeightTransport.NCCL
    for version in range(num_versions):
        found: Snapshot | str = (
            await receiver.receive(have_version=version)
            if broadcasts
            else await fetch_weights(launch, process=process, have_version=version, buffers=buffers)
        )
        assert isinstance(found, Snapshot), found
        print(time.monotonic(), _cpu_seconds(), flush=True)


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def to_all(num_bytes: int, turns: int) -> dict[str, Any]:
    """Return what a version of so many bytes costs each way, by number of workers."""
    rows = []
    for readers, transport in itertools.product(NUM_READERS, WeightTransport):
        print(f"   {transport}, workers: {readers}", flush=True)
        took = [_turn(transport, readers, num_bytes) for _ in range(turns)]
        rows.append({"readers": readers, "way": transport, "turns": took})
    return {"bytes": num_bytes, "rows": rows}


def _turn(transport: WeightTransport, readers: int, num_bytes: int) -> dict[str, float]:
    """Return medians and means of the versions that are counted."""
    with ExitStack() as on:
        name = on.enter_context(tempfile.TemporaryDirectory(prefix="hetrl-wire-", dir="/dev/shm"))
        launch = replace(launch_in(Path(name)), weight_transport=transport)
        sends = on.enter_context(_started(launch, Role.TRAINER, "trainer", str(num_bytes)))
        assert _line(sends) == "ready\n"
        takes = [
            on.enter_context(
                _started(launch, Role.ROLLOUT, "worker", f"rollout-{number}", str(_NUM_VERSIONS))
            )
            for number in range(readers)
        ]
        versions = [_published(sends, takes) for _ in range(_NUM_VERSIONS)]
        assert sends.stdin
        sends.stdin.close()
        _, trainer_spent = _figures(sends)
    counted = versions[_NUM_UNCOUNTED:]
    before = versions[_NUM_UNCOUNTED - 1]
    return {
        "seconds": statistics.median(
            max(at for at, _ in taken) - published for (published, _), taken in counted
        ),
        "trainer_cpu_seconds": (trainer_spent - counted[0][0][1]) / len(counted),
        "worker_cpu_seconds": statistics.mean(
            (last - first) / len(counted)
            for (_, first), (_, last) in zip(before[1], counted[-1][1], strict=True)
        ),
    }


_Figures = tuple[float, float]


def _published(
    sends: "subprocess.Popen[str]", takes: "list[subprocess.Popen[str]]"
) -> tuple[_Figures, list[_Figures]]:
    """Publish once, and return when that was and when each worker had it, with what was spent."""
    assert sends.stdin
    sends.stdin.write("publish\n")
    sends.stdin.flush()
    return _figures(sends), [_figures(each) for each in takes]


def _figures(process: "subprocess.Popen[str]") -> _Figures:
    at, spent = _line(process).split()
    return float(at), float(spent)


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout
    return process.stdout.readline()


@contextmanager
def _started(
    launch: Launch, role: Role, kind: str, *arguments: str
) -> "Iterator[subprocess.Popen[str]]":
    file = Path(launch.state_path).with_name(f"{'-'.join((kind, *arguments))}.json")
    file.write_text(contract.to_json(as_role(launch, role)))
    core = cores()[0 if role is Role.TRAINER else 1]
    with subprocess.Popen(
        ["taskset", "-c", str(core), sys.executable, "-m", _MODULE, kind, str(file), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


if __name__ == "__main__":
    memory.keep_freed()
    if sys.argv[1] == "trainer":
        trainer(*sys.argv[2:])
    else:
        worker(*sys.argv[2:])
