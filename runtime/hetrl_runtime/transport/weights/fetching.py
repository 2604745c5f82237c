"""Fetching weights: chunks put together again, streams resumed, patches applied."""

import asyncio
import logging
import time
from dataclasses import dataclass, replace
from typing import Any

import google_crc32c
import grpc
import grpc.aio

from hetrl_core.launch import Launch
from hetrl_core.task import Role
from hetrl_runtime.compute.buffers import Buffers
from hetrl_runtime.transport.channel import open_channel
from hetrl_runtime.transport.clients.coordinator_link import backoff_seconds
from hetrl_runtime.transport.errors import Refused, Unreachable
from hetrl_runtime.transport.weights import patch
from hetrl_runtime.transport.weights.weights import MAX_WEIGHTS_BYTES, Snapshot
from hetrl_runtime.wire import codec
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.hetrl_pb2_grpc import WeightsStub

log = logging.getLogger(__name__)


class Assembly:
    """Assembles chunks in a given buffer, and refuses what does not fit; no I/O."""

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers
        self._begin(pb.WeightChunk(version=-1))

    def _begin(self, first: pb.WeightChunk) -> None:
        self.version = first.version
        self.is_patches = first.is_patches
        self.base_sha256 = first.base_sha256
        total_bytes = min(max(0, first.total_bytes), MAX_WEIGHTS_BYTES)
        # Drop the former view first: it may be of the buffer that is acquired.
        self._data = memoryview(bytearray())
        if total_bytes:
            self._data = self._buffers.acquire(total_bytes)
        self._received_bytes = 0
        self._num_streams = 1
        self._expected_digest = b""
        self._total_bytes = -1

    @property
    def received_bytes(self) -> int:
        """Bytes from the start that are here and checked: where to resume."""
        return self._received_bytes

    def add(self, chunk: pb.WeightChunk) -> str:
        """Take a chunk in; return what is wrong with it, or nothing."""
        if not self._continues(chunk):
            self._begin(chunk)
        start = self._received_bytes
        if chunk.offset_bytes != start:
            return f"chunk starts at byte {chunk.offset_bytes}, expected {start}"
        # Protobuf makes a copy each time that it is asked.
        data = chunk.data
        if google_crc32c.value(data) != chunk.crc32c:
            return f"chunk at byte {chunk.offset_bytes} has a wrong checksum"
        if start + len(data) > len(self._data):
            return f"chunk ends at byte {start + len(data)}, beyond all {len(self._data)}"
        self._data[start : start + len(data)] = data
        self._received_bytes += len(data)
        self._total_bytes = chunk.total_bytes
        self._expected_digest = chunk.sha256
        return ""

    def begin_stream(self) -> None:
        """Note that the next chunks are from another stream."""
        self._num_streams += bool(self._received_bytes)

    def finish(self) -> Snapshot | str:
        """Return the snapshot when it is whole, or what is wrong."""
        if self._received_bytes != self._total_bytes:
            return f"{self._received_bytes} of {self._total_bytes} bytes arrived"
        # One stream's chunks are in order and checked. A trainer that came back between two may
        # have made other weights under the same version.
        if self._num_streams > 1 and patch.digest(self._data) != self._expected_digest:
            self._begin(pb.WeightChunk(version=-1))
            return "the digest of the whole is wrong"
        return Snapshot(version=self.version, data=self._data, sha256=self._expected_digest)

    def _continues(self, chunk: pb.WeightChunk) -> bool:
        return (chunk.version, chunk.is_patches, chunk.base_sha256) == (
            self.version,
            self.is_patches,
            self.base_sha256,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The weights that a reader asks for; from a relay nothing older, and of no other epoch."""

    have_version: int = -1
    least_version: int = 0
    epoch: int = 0
    base: Snapshot | None = None
    """Where patches are asked for: what they may be of."""

    as_patches: bool = False
    wait_seconds: float = 10.0


async def fetch_weights(
    launch: Launch,
    *,
    process: str,
    have_version: int = -1,
    base: Snapshot | None = None,
    buffers: Buffers | None = None,
    deadline_seconds: float | None = None,
) -> Snapshot:
    """Fetch the trainer's newest weights, which are of another version than ``have_version``.

    Waits until there are such weights; a broken stream is resumed and a corrupt chunk asked for
    again. Where weights cross regions they come as patches of ``base``, which was fetched before,
    or of nothing. A caller that fetches version after version passes ``buffers``, to reuse memory.
    ``deadline_seconds`` is the start-up deadline by default.

    Raises:
        Refused: the weights are another job's.
        Unreachable: no whole, correct snapshot came within the deadline.
    """
    timeout_seconds = deadline_seconds or launch.startup_deadline_seconds
    give_up_at = time.monotonic() + timeout_seconds
    wanted = Wanted(have_version=have_version, base=base, as_patches=launch.weights_cross_regions)
    buffers = buffers or Buffers()
    assembly = Assembly(buffers)
    problem = "nothing was published"
    async with open_channel(launch.weights, launch.tls, program=Role.TRAINER) as channel:
        stub = WeightsStub(channel)
        for pause in backoff_seconds():
            request = fetch_request(launch, process, wanted, assembly)
            outcome = await fetch_once(stub, request, assembly)
            if isinstance(outcome, Snapshot) and assembly.is_patches:
                outcome = await asyncio.to_thread(
                    _patched, outcome, assembly.base_sha256, wanted.base
                )
                # What did not fit will not fit the next time either.
                assembly, wanted = Assembly(buffers), replace(wanted, base=None)
            if isinstance(outcome, Snapshot):
                return outcome
            problem = outcome or problem
            if time.monotonic() + pause > give_up_at:
                break
            await asyncio.sleep(pause)
    raise Unreachable(f"no weights from {launch.weights} within {timeout_seconds:g} s: {problem}")


def fetch_request(
    launch: Launch, process: str, wanted: Wanted, assembly: Assembly
) -> pb.FetchRequest:
    """Ask for what is wanted, from where an assembly ends."""
    return pb.FetchRequest(
        job=codec.encode_job(launch.job),
        process=process,
        have_version=wanted.have_version,
        resume_version=assembly.version,
        offset_bytes=assembly.received_bytes,
        wait_seconds=wanted.wait_seconds,
        as_patches=wanted.as_patches,
        base_sha256=wanted.base.sha256 if wanted.base else b"",
        least_version=wanted.least_version,
        epoch=wanted.epoch,
    )


async def fetch_once(stub: Any, request: pb.FetchRequest, assembly: Assembly) -> Snapshot | str:
    """Read one stream as far as it goes; return the snapshot, or why there is none yet.

    That is empty where nothing is wrong, and what is asked for is not there yet.
    """
    try:
        any_chunk = False
        assembly.begin_stream()
        async for chunk in stub.Fetch(request, timeout=600.0):
            any_chunk = True
            if problem := assembly.add(chunk):
                return problem
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.PERMISSION_DENIED:
            raise Refused(str(error.details())) from error
        return str(error.details()) or str(error.code())
    # In a thread, because digesting would keep the loop from heartbeats and engines.
    return await asyncio.to_thread(assembly.finish) if any_chunk else ""


def _patched(patches: Snapshot, base_sha256: bytes, base: Snapshot | None) -> Snapshot | str:
    """Return the weights that patches make, or what is wrong with them."""
    found = patch.apply_joined(patches.data, base=base.data if base else None)
    if isinstance(found, patch.Unfit):
        log.warning("patched weights refused: version=%d %s", patches.version, found.reason)
        return found.reason
    return Snapshot(
        version=patches.version,
        data=found,
        sha256=patch.digest(found),
        is_patched=bool(base_sha256),
    )
