"""The trainer's newest weights as one stream of checked chunks, and fetching them.

The content is safetensors bytes, made and read elsewhere: this file sees bytes, so it needs
no torch and nothing on the wire can be executed. Each chunk has a CRC32C, and a cut stream goes on
from where it stopped; what was put together of several has its SHA-256 compared. Over a slow link
the content is patches of what the reader has (``patch``).
"""

import asyncio
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import google_crc32c
import grpc
import grpc.aio
import numpy as np

from hetrl_core.launch import Address, JobIdentity, Launch, TlsFiles
from hetrl_runtime.faults import Point, passing
from hetrl_runtime.transport import patch
from hetrl_runtime.transport.channel import bind, open_channel, open_threaded_server
from hetrl_runtime.transport.coordinator_link import backoff_seconds
from hetrl_runtime.transport.errors import Refused, Unreachable
from hetrl_runtime.transport.patches import Patches, Ways
from hetrl_runtime.transport.regions import Bytes
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.hetrl_pb2_grpc import (
    WeightsServicer,
    WeightsStub,
    add_WeightsServicer_to_server,
)

log = logging.getLogger(__name__)

CHUNK_BYTES = 4 << 20
MAX_WEIGHTS_BYTES = 1 << 42
"""Four tebibytes: above any model."""

MAX_READERS = 64
"""Rollout workers that may wait or read at once; further ones queue."""

_LONGEST_WAIT_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The weights of one version, whole and checked."""

    version: int
    data: Bytes
    """A safetensors file; not to be changed."""

    sha256: bytes = field(default=b"", compare=False)
    """Of the data, where they were made of patches."""

    is_patched: bool = field(default=False, compare=False)
    """Whether they came as changes of others."""


class WeightServer:
    """Serves the newest snapshot to rollout workers, from threads of the trainer's process.

    Use it as a context manager; ``publish`` a snapshot per version. Readers of an older one
    finish it undisturbed.
    """

    def __init__(self, *, job: JobIdentity, address: Address, tls: TlsFiles | None) -> None:
        self._snapshot: _Digested | None = None
        self._patches = Patches()
        self._changed = threading.Condition()
        self._is_closing = False
        self._digesting = ThreadPoolExecutor(1, thread_name_prefix="weights-digest")
        self._server = open_threaded_server(
            ThreadPoolExecutor(MAX_READERS, thread_name_prefix="weights")
        )
        add_WeightsServicer_to_server(_Servicer(self, job), self._server)
        self.port = bind(self._server, address, tls)

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._server.stop(grace=1.0).wait()
        self._digesting.shutdown()
        self._patches.close()

    def publish(self, snapshot: Snapshot) -> None:
        """Make a version the one that readers get from now on."""
        # The digest of gigabytes takes seconds: it is made while the first readers read.
        digest = self._digesting.submit(_digest, snapshot)
        digested = _Digested(snapshot=snapshot, sha256=digest.result)
        with self._changed:
            self._snapshot = digested
            self._patches.add(snapshot.data)
            self._changed.notify_all()

    def other_than(self, version: int, *, wait_seconds: float) -> "_Digested | None":
        """Wait for a snapshot of another version; None when the wait is over."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_closing or self._is_other(version), timeout=wait_seconds
            )
            return self._snapshot if self._is_other(version) else None

    def ways_to(self, version: int) -> Ways | None:
        """Return the patches that lead to a version, if it still is the newest."""
        with self._changed:
            is_newest = self._snapshot and self._snapshot.snapshot.version == version
            return self._patches.ways() if is_newest else None

    def _is_other(self, version: int) -> bool:
        return self._snapshot is not None and self._snapshot.snapshot.version != version


@dataclass(frozen=True, slots=True, kw_only=True)
class _Digested:
    snapshot: Snapshot
    sha256: Callable[[], bytes]


def _digest(snapshot: Snapshot) -> bytes:
    found = hashlib.sha256(snapshot.data)
    log.info("weights published: version=%d sha256=%s", snapshot.version, found.hexdigest())
    return found.digest()


class _Servicer(WeightsServicer):
    def __init__(self, server: WeightServer, job: JobIdentity) -> None:
        self._server = server
        self._job = job

    def Fetch(  # noqa: N802  # the name is the protocol's
        self, request: pb.FetchRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.WeightChunk]:
        asked = JobIdentity(
            namespace=request.job.namespace, name=request.job.name, uid=request.job.uid
        )
        if asked != self._job:
            context.abort(
                grpc.StatusCode.PERMISSION_DENIED, f"these are the weights of {self._job}"
            )
        wait_seconds = min(max(request.wait_seconds, 0.0), _LONGEST_WAIT_SECONDS)
        digested = self._server.other_than(request.have_version, wait_seconds=wait_seconds)
        if digested is None:
            return
        version = digested.snapshot.version
        offset_bytes = request.offset_bytes if request.resume_version == version else 0
        ways = self._server.ways_to(version) if request.as_patches else None
        if ways is None:
            yield from chunks(digested.snapshot, sha256=digested.sha256, offset_bytes=offset_bytes)
            return
        payload = ways.payload(request.base_sha256)
        yield from chunks(
            Snapshot(version=version, data=payload.data),
            sha256=lambda: hashlib.sha256(payload.data).digest(),
            offset_bytes=offset_bytes,
            patches_of=payload.base_sha256,
        )


def chunks(
    snapshot: Snapshot,
    *,
    sha256: Callable[[], bytes],
    offset_bytes: int = 0,
    chunk_bytes: int = CHUNK_BYTES,
    patches_of: bytes | None = None,
) -> Iterator[pb.WeightChunk]:
    """Cut a snapshot into messages from an offset on; the last carries the digest.

    ``sha256`` is asked for it only then, and may wait. ``patches_of`` says that the data are
    patches, and of which base.
    """
    total_bytes = len(snapshot.data)
    view = memoryview(snapshot.data)
    offsets = range(max(0, offset_bytes), total_bytes, chunk_bytes) or (total_bytes,)
    for offset in offsets:
        data = bytes(view[offset : offset + chunk_bytes])
        is_last = offset + len(data) == total_bytes
        yield pb.WeightChunk(
            version=snapshot.version,
            total_bytes=total_bytes,
            offset_bytes=offset,
            data=data,
            crc32c=google_crc32c.value(data),
            sha256=sha256() if is_last else b"",
            is_patches=patches_of is not None,
            base_sha256=patches_of or b"",
        )
        passing(Point.WEIGHTS_SENT)


class Assembly:
    """Puts chunks together again and refuses what does not fit; no I/O."""

    def __init__(self) -> None:
        self._begin(pb.WeightChunk(version=-1))

    def _begin(self, first: pb.WeightChunk) -> None:
        self.version = first.version
        self.is_patches = first.is_patches
        self.base_sha256 = first.base_sha256
        # numpy asks for large pages: touching small ones takes longer than copying.
        total_bytes = min(max(0, first.total_bytes), MAX_WEIGHTS_BYTES)
        self._data: memoryview = np.empty(total_bytes, np.uint8).data
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

    def go_on(self) -> None:
        """Take note that what comes next is from another stream."""
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
        return Snapshot(version=self.version, data=self._data)

    def _continues(self, chunk: pb.WeightChunk) -> bool:
        return (chunk.version, chunk.is_patches, chunk.base_sha256) == (
            self.version, self.is_patches, self.base_sha256,
        )  # fmt: skip


async def fetch_weights(
    launch: Launch,
    *,
    process: str,
    have_version: int = -1,
    base: Snapshot | None = None,
    deadline_seconds: float | None = None,
) -> Snapshot:
    """Fetch the trainer's newest weights, which are of another version than ``have_version``.

    Waits until there are such weights; a broken stream is resumed and a corrupt chunk asked for
    again. Where weights cross regions they come as patches of ``base``, which was fetched before,
    or of nothing. ``deadline_seconds`` is the start-up deadline by default.

    Raises:
        Refused: the weights are another job's.
        Unreachable: no whole, correct snapshot came within the deadline.
    """
    patience_seconds = deadline_seconds or launch.startup_deadline_seconds
    give_up_at = time.monotonic() + patience_seconds
    assembly = Assembly()
    problem = "nothing was published"
    async with open_channel(launch.weights, launch.tls) as channel:
        stub = WeightsStub(channel)
        for pause in backoff_seconds():
            request = _fetch_request(launch, process, have_version, assembly, base)
            outcome = await _fetch_once(stub, request, assembly)
            if isinstance(outcome, Snapshot) and assembly.is_patches:
                outcome = await asyncio.to_thread(_patched, outcome, assembly.base_sha256, base)
                # What did not fit will not fit the next time either.
                assembly, base = Assembly(), None
            if isinstance(outcome, Snapshot):
                return outcome
            problem = outcome or problem
            if time.monotonic() + pause > give_up_at:
                break
            await asyncio.sleep(pause)
    raise Unreachable(f"no weights from {launch.weights} within {patience_seconds:g} s: {problem}")


def _fetch_request(
    launch: Launch, process: str, have_version: int, assembly: Assembly, base: Snapshot | None
) -> pb.FetchRequest:
    return pb.FetchRequest(
        job=pb.JobIdentity(
            namespace=launch.job.namespace, name=launch.job.name, uid=launch.job.uid
        ),
        process=process,
        have_version=have_version,
        resume_version=assembly.version,
        offset_bytes=assembly.received_bytes,
        wait_seconds=10.0,
        as_patches=launch.weights_cross_regions,
        base_sha256=base.sha256 if base else b"",
    )


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


async def _fetch_once(stub: Any, request: pb.FetchRequest, assembly: Assembly) -> Snapshot | str:
    """Read one stream as far as it goes; return the snapshot, or why there is none yet."""
    try:
        any_chunk = False
        assembly.go_on()
        async for chunk in stub.Fetch(request, timeout=600.0):
            any_chunk = True
            if problem := assembly.add(chunk):
                return problem
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.PERMISSION_DENIED:
            raise Refused(str(error.details())) from error
        return str(error.details())
    # In a thread, because digesting would keep the loop from heartbeats and engines.
    return await asyncio.to_thread(assembly.finish) if any_chunk else ""
