"""The newest weights as one stream of checked chunks, for readers to fetch (``fetching``).

The content is safetensors bytes, made and read elsewhere: this file sees bytes, so it needs
no torch and nothing on the wire can be executed. Each chunk has a CRC32C, and a cut stream goes on
from where it stopped; what was put together of several has its SHA-256 compared. Over a slow link
the content is patches of what the reader has (``patch``).
"""

import hashlib
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self

import google_crc32c
import grpc

from hetrl_core.launch import Address, JobIdentity, TlsFiles
from hetrl_runtime.process.faults import Point, passing
from hetrl_runtime.transport.channel import bind, open_threaded_server
from hetrl_runtime.transport.weights.patches import Patches, Ways
from hetrl_runtime.transport.weights.regions import Bytes
from hetrl_runtime.wire import codec
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.hetrl_pb2_grpc import WeightsServicer, add_WeightsServicer_to_server
from hetrl_runtime.wire.validation import wait_of

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
    """Of the data, where they were fetched."""

    is_patched: bool = field(default=False, compare=False)
    """Whether they came as changes of others."""

    crossed_regions: bool = field(default=False, compare=False)
    """Whether they came to us over a slow link."""

    was_broadcast: bool = field(default=False, compare=False)
    """Whether they came over a process group."""


class WeightServer:
    """A server of the newest snapshot to rollout workers, in threads of its process.

    That is the trainer's, or a worker's that fetched it for others. Use it as a context manager;
    ``publish`` a snapshot per version. Readers of an older one finish it undisturbed.
    """

    def __init__(self, *, job: JobIdentity, address: Address, tls: TlsFiles | None) -> None:
        self._snapshot: _Digested | None = None
        self._patches = Patches()
        self._changed = threading.Condition()
        self._is_closing = False
        self._is_expecting = False
        self._digesting = ThreadPoolExecutor(1, thread_name_prefix="weights-digest")
        self._server = open_threaded_server(
            ThreadPoolExecutor(MAX_READERS, thread_name_prefix="weights")
        )
        add_WeightsServicer_to_server(_Servicer(self, job), self._server)
        self.port = bind(self._server, address, tls)

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._server.stop(grace=1.0).wait()
        self._digesting.shutdown()
        self._patches.close()

    def also_serve(self, add: Callable[[grpc.Server], None]) -> None:
        """Serve something else at the same address; before this is entered."""
        add(self._server)

    @property
    def newest(self) -> Snapshot | None:
        """What was published last."""
        with self._changed:
            return self._snapshot.snapshot if self._snapshot else None

    def publish(self, snapshot: Snapshot, *, epoch: int = 0) -> None:
        """Make a version the one that readers get from now on.

        ``epoch`` is the one that a relay fetched it in; the trainer's own are of the newest.
        """
        # The digest of gigabytes takes seconds: it is made while the first readers read.
        digest = self._digesting.submit(_digest, snapshot)
        digested = _Digested(snapshot=snapshot, sha256=digest.result, epoch=epoch)
        with self._changed:
            self._snapshot = digested
            self._patches.add(snapshot.data)
            self._changed.notify_all()

    @contextmanager
    def expecting(self) -> Iterator[None]:
        """Let readers wait as long as the context lives: what they ask for is on its way here."""
        self._expect(is_expecting=True)
        try:
            yield
        finally:
            self._expect(is_expecting=False)

    def wait_for(self, request: pb.FetchRequest) -> "_Digested | None":
        """Wait for a snapshot that a reader asks for; None when the wait is over."""
        wait_seconds = wait_of(request.wait_seconds, longest_seconds=_LONGEST_WAIT_SECONDS)

        def is_over() -> bool:
            return self._is_closing or self._answers(request)

        with self._changed:
            self._changed.wait_for(is_over, timeout=wait_seconds)
            self._changed.wait_for(lambda: is_over() or not self._is_expecting)
            return self._snapshot if self._answers(request) else None

    def ways_to(self, version: int) -> Ways | None:
        """Return the patches that lead to a version, if it still is the newest."""
        with self._changed:
            is_newest = self._snapshot and self._snapshot.snapshot.version == version
            return self._patches.ways() if is_newest else None

    def _expect(self, *, is_expecting: bool) -> None:
        with self._changed:
            self._is_expecting = is_expecting
            self._changed.notify_all()

    def _answers(self, request: pb.FetchRequest) -> bool:
        if self._snapshot is None:
            return False
        version = self._snapshot.snapshot.version
        is_new = version != request.have_version and version >= request.least_version
        return is_new and request.epoch in {0, self._snapshot.epoch}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Digested:
    snapshot: Snapshot
    sha256: Callable[[], bytes]
    epoch: int


def _digest(snapshot: Snapshot) -> bytes:
    found = snapshot.sha256 or hashlib.sha256(snapshot.data).digest()
    log.info("weights published: version=%d sha256=%s", snapshot.version, found.hex())
    return found


class _Servicer(WeightsServicer):
    def __init__(self, server: WeightServer, job: JobIdentity) -> None:
        self._server = server
        self._job = job

    def Fetch(  # noqa: N802  # the name is the protocol's
        self, request: pb.FetchRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.WeightChunk]:
        require_job(request.job, self._job, context)
        digested = self._server.wait_for(request)
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


def require_job(asked: pb.JobIdentity, ours: JobIdentity, context: grpc.ServicerContext) -> None:
    """End a call of another job's process."""
    if codec.decode_job(asked) != ours:
        context.abort(grpc.StatusCode.PERMISSION_DENIED, f"these are the weights of {ours}")


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
