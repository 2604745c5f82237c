"""The weight stream beside a bare one, and all the way into an engine.

Bare is what grpc.aio does at best: a server that yields chunks of a file that is in memory, each
with its CRC32C, over the same mutual TLS; a reader that checks them and drops them. Servers run on
one core, readers on the other, and both sides take turns.
"""

import asyncio
import contextlib
import functools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import google_crc32c
import grpc
import grpc.aio

from bench.wire.stage import as_role, cores, cpu_seconds, launch_in, peer
from hetrl_core import launch as contract
from hetrl_core.launch import Launch
from hetrl_core.task import Role
from hetrl_runtime.compute import memory
from hetrl_runtime.compute.buffers import Buffers
from hetrl_runtime.transport.channel import bind, open_async_server, open_channel
from hetrl_runtime.transport.weights.fetching import fetch_weights
from hetrl_runtime.transport.weights.weights import CHUNK_BYTES, Snapshot, WeightServer
from hetrl_runtime.wire import hetrl_pb2 as pb

STREAM_BYTES = 256 << 20
NUM_READINGS = 16
"""Readings of each side before its processes are restarted."""

_FETCH = "/bare.Weights/Fetch"


def serve(kind: str, launch_file: str, weights_file: str) -> None:
    """Serve a file's bytes until standard input ends, as the trainer does or bare."""
    memory.keep_freed()
    launch = contract.from_json(Path(launch_file).read_text())
    data = Path(weights_file).read_bytes()
    if kind == "bare":
        asyncio.run(_serve_bare(launch, data))
        return
    with WeightServer(job=launch.job, address=launch.weights, tls=launch.tls) as server:
        server.publish(Snapshot(version=1, data=data))
        _say_ready_and_wait()


async def _serve_bare(launch: Launch, data: bytes) -> None:
    view = memoryview(data)

    async def fetch(_request: bytes, _context: object) -> AsyncIterator[pb.WeightChunk]:
        for offset in range(0, len(data), CHUNK_BYTES):
            chunk = bytes(view[offset : offset + CHUNK_BYTES])
            yield pb.WeightChunk(data=chunk, crc32c=google_crc32c.value(chunk))

    handler = grpc.unary_stream_rpc_method_handler(
        fetch, response_serializer=pb.WeightChunk.SerializeToString
    )
    server = open_async_server({_FETCH: frozenset({Role.ROLLOUT})})
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("bare.Weights", {"Fetch": handler}),)
    )
    bind(server, launch.weights, launch.tls)
    await server.start()
    await asyncio.to_thread(_say_ready_and_wait)
    await server.stop(grace=None)


def _say_ready_and_wait() -> None:
    print("ready", flush=True)
    sys.stdin.read()


@contextlib.contextmanager
def _served(kind: str, launch: Launch, weights: Path) -> Iterator[int]:
    file = Path(launch.state_path).with_name("launch.json")
    file.write_text(contract.to_json(as_role(launch, Role.TRAINER)))
    arguments = (kind, str(file), str(weights))
    with peer("bench.wire.weights", *arguments, core=cores()[0]) as pid:
        yield pid


async def _read_bare(launch: Launch) -> int:
    received_bytes = 0
    async with open_channel(launch.weights, launch.tls, program=Role.TRAINER) as channel:
        fetch = channel.unary_stream(_FETCH, response_deserializer=pb.WeightChunk.FromString)
        async for chunk in fetch(b""):
            # Protobuf makes a copy each time that it is asked.
            data = chunk.data
            assert google_crc32c.value(data) == chunk.crc32c
            received_bytes += len(data)
    return received_bytes


async def _read_ours(launch: Launch, *, buffers: Buffers) -> int:
    return len((await fetch_weights(launch, process="rollout-0", buffers=buffers)).data)


_Read = Callable[[Launch], Coroutine[Any, Any, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one reading of the whole file took."""

    seconds: float
    server_cpu_seconds: float
    reader_cpu_seconds: float


def stream(turns: int) -> dict[str, Any]:
    """Return what each side took for the same bytes, reading by reading."""
    os.sched_setaffinity(0, {cores()[1]})
    memory.keep_freed()
    sides: dict[str, _Read] = {
        "bare": _read_bare,
        "ours": functools.partial(_read_ours, buffers=Buffers()),
    }
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in sides}
    with tempfile.TemporaryDirectory(prefix="hetrl-wire-", dir="/dev/shm") as name:
        weights = Path(name) / "weights"
        weights.write_bytes(os.urandom(1 << 20) * (STREAM_BYTES >> 20))
        for turn in range(turns):
            print(f"   turn {turn + 1} of {turns}", flush=True)
            with contextlib.ExitStack() as on:
                served = {kind: on.enter_context(_side(kind, weights)) for kind in sides}
                # The first has the server's digest beside it, which is made once a version.
                for kind, read in sides.items():
                    _reading(read, *served[kind])
                for _ in range(NUM_READINGS):
                    for kind, read in sides.items():
                        found[kind].append(asdict(_reading(read, *served[kind])))
    return {"bytes": STREAM_BYTES, "chunk_bytes": CHUNK_BYTES, "readings": found}


@contextlib.contextmanager
def _side(kind: str, weights: Path) -> Iterator[tuple[Launch, int]]:
    """Serve a file; yield a reader's contract and the server's process."""
    folder = weights.with_name(kind)
    folder.mkdir(exist_ok=True)
    launch = launch_in(folder)
    with _served(kind, launch, weights) as pid:
        yield as_role(launch, Role.ROLLOUT), pid


def _reading(read: _Read, launch: Launch, pid: int) -> Reading:
    began, cpu, server_cpu = time.perf_counter(), time.process_time(), cpu_seconds(pid)
    assert asyncio.run(read(launch)) == STREAM_BYTES
    return Reading(
        seconds=time.perf_counter() - began,
        server_cpu_seconds=cpu_seconds(pid) - server_cpu,
        reader_cpu_seconds=time.process_time() - cpu,
    )


def into_engine(model: Path) -> dict[str, Any]:
    """Return the seconds from asking for a model's weights to sampling with them, part by part."""
    os.sched_setaffinity(0, {cores()[1]})
    memory.keep_freed()
    with tempfile.TemporaryDirectory(prefix="hetrl-wire-", dir="/dev/shm") as name:
        weights = Path(name) / "weights"
        weights.write_bytes((model / "model.safetensors").read_bytes())
        launch = launch_in(Path(name))
        with _served("ours", launch, weights):
            return asyncio.run(_loaded(as_role(launch, Role.ROLLOUT), model))


async def _loaded(launch: Launch, model: Path) -> dict[str, Any]:
    from hetrl_runtime.rollout.engine import EngineSettings  # noqa: PLC0415  # torch
    from hetrl_runtime.rollout.engines.transformers import TransformersEngine  # noqa: PLC0415

    engine = TransformersEngine(
        EngineSettings(model=str(model), concurrency=8, max_sequence_tokens=64, stop_tokens=(0,))
    )
    await engine.start()
    buffers = Buffers()
    parts: dict[str, list[float]] = {"fetch": [], "load": []}
    for version in range(1, 4):
        began = time.perf_counter()
        snapshot = await fetch_weights(launch, process="rollout-0", buffers=buffers)
        fetched = time.perf_counter()
        await engine.update_weights(snapshot.data, version=version)
        loaded = time.perf_counter()
        parts["fetch"].append(fetched - began)
        parts["load"].append(loaded - fetched)
    await engine.stop()
    medians = {name: statistics.median(seconds) for name, seconds in parts.items()}
    return {"bytes": len(snapshot.data), "seconds": medians}


if __name__ == "__main__":
    serve(*sys.argv[1:])
