"""The weight stream: whole, checked, resumable, and only for the job's own workers."""

import asyncio
import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetrl_core.launch import JobIdentity
from hetrl_runtime.compute.buffers import Buffers
from hetrl_runtime.transport.channel import bind, open_threaded_server
from hetrl_runtime.transport.errors import Refused, Unreachable
from hetrl_runtime.transport.weights.fetching import Assembly, fetch_weights
from hetrl_runtime.transport.weights.weights import CHUNK_BYTES, Snapshot, WeightServer, chunks
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.hetrl_pb2_grpc import WeightsServicer, add_WeightsServicer_to_server
from tests.runtime.launches import a_launch

SOME_BYTES = bytes(range(256)) * (CHUNK_BYTES // 256 * 2 + 3)


def digest(data: bytes) -> Callable[[], bytes]:
    return lambda: hashlib.sha256(data).digest()


async def test_newest_version_arrives_whole(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)
    with WeightServer(job=launch.job, address=launch.weights, tls=None) as server:
        server.publish(Snapshot(version=3, data=b"old"))
        server.publish(Snapshot(version=4, data=SOME_BYTES))

        snapshot = await fetch_weights(launch, process="rollout-0", have_version=3)

    assert snapshot == Snapshot(version=4, data=SOME_BYTES)


async def test_worker_waits_for_a_version_that_it_does_not_have(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)
    with WeightServer(job=launch.job, address=launch.weights, tls=None) as server:
        server.publish(Snapshot(version=3, data=b"three"))
        fetching = asyncio.create_task(fetch_weights(launch, process="p", have_version=3))
        done, _ = await asyncio.wait({fetching}, timeout=0.2)
        assert not done

        server.publish(Snapshot(version=4, data=b"four"))

        assert (await fetching).data == b"four"


async def test_worker_of_another_job_gets_no_weights(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)
    stranger = replace(launch, job=JobIdentity(namespace="default", name="sums", uid="other"))
    with WeightServer(job=launch.job, address=launch.weights, tls=None) as server:
        server.publish(Snapshot(version=0, data=b"secret"))

        with pytest.raises(Refused, match="weights of"):
            await fetch_weights(stranger, process="rollout-0")


async def test_waiting_for_weights_ends_with_a_reason(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)

    with pytest.raises(Unreachable, match=rf"no weights from {launch.weights} within 0.3 s"):
        await fetch_weights(launch, process="rollout-0", deadline_seconds=0.3)


class Unreliable(WeightsServicer):
    """Cuts the first stream off, corrupts a chunk of the second, and serves the third."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.offsets: list[int] = []

    def Fetch(self, request: pb.FetchRequest, _context: Any) -> Iterator[pb.WeightChunk]:  # noqa: N802
        self.offsets.append(request.offset_bytes)
        attempt = len(self.offsets)
        cut = chunks(
            Snapshot(version=1, data=self.data),
            sha256=digest(self.data),
            offset_bytes=request.offset_bytes,
            chunk_bytes=4,
        )
        for number, chunk in enumerate(cut):
            if attempt < 3 and number == 2:
                if attempt == 1:
                    return
                chunk.data = b"evil"
            yield chunk


async def test_cut_or_corrupt_stream_resumes_where_it_was_good(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)
    servicer = Unreliable(bytes(range(40)))
    server = open_threaded_server(ThreadPoolExecutor(1))
    add_WeightsServicer_to_server(servicer, server)
    bind(server, launch.weights, None)
    server.start()
    try:
        snapshot = await fetch_weights(launch, process="rollout-0")
    finally:
        server.stop(grace=None).wait()

    assert snapshot.data == bytes(range(40))
    assert servicer.offsets == [0, 8, 16]


@given(data=st.binary(max_size=100), chunk_bytes=st.integers(1, 40), offset=st.integers(0, 100))
def test_chunks_put_together_are_the_whole(data: bytes, chunk_bytes: int, offset: int) -> None:
    snapshot = Snapshot(version=2, data=data)
    assembly = Assembly(Buffers())
    for chunk in chunks(snapshot, sha256=digest(data), chunk_bytes=chunk_bytes):
        if assembly.received_bytes >= offset:
            break
        assert not assembly.add(chunk)

    rest = chunks(
        snapshot,
        sha256=digest(data),
        chunk_bytes=chunk_bytes,
        offset_bytes=assembly.received_bytes,
    )
    for chunk in rest:
        assert not assembly.add(chunk)

    assert assembly.finish() == snapshot


def test_halves_of_two_publications_are_not_joined() -> None:
    assembly = Assembly(Buffers())
    for data in (b"weights of a trainer", b"WEIGHTS AFTER A KILL"):
        assembly.begin_stream()
        for chunk in chunks(
            Snapshot(version=1, data=data),
            sha256=digest(data),
            chunk_bytes=10,
            offset_bytes=assembly.received_bytes,
        ):
            assert not assembly.add(chunk)
            if not chunk.offset_bytes:
                break

    assert assembly.finish() == "the digest of the whole is wrong"
    assert assembly.received_bytes == 0


def test_chunk_of_another_place_is_noticed() -> None:
    assembly = Assembly(Buffers())

    assert "starts at byte 8, expected 0" in assembly.add(pb.WeightChunk(offset_bytes=8))


async def test_closing_server_does_not_wait_for_those_who_wait(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)
    request = pb.FetchRequest(wait_seconds=200.0)
    with WeightServer(job=launch.job, address=launch.weights, tls=None) as server:
        waiting = asyncio.create_task(asyncio.to_thread(server.wait_for, request))

    assert await waiting is None
