"""Processes that one of them sends bytes to, by torch's own collectives.

    sender   bytes ─▶ buffer ─▶ broadcast ──┐
    receiver bytes ◀─ buffer ◀─ broadcast ◀─┘   two buffers: one travels while one is copied

Groups are separate from torch's default one, so they come and go while a model trains.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import google_crc32c
import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import PrefixStore, ProcessGroupGloo, Store, TCPStore

from hetrl_runtime.transport.weights.regions import Bytes

PART_BYTES = 32 << 20
_MEETING = timedelta(seconds=10)
"""For all members to arrive: they are invited at the same moment."""

_PART = timedelta(seconds=10)
"""For one part to reach everyone."""


def a_store() -> TCPStore:
    """Open a place where members meet, at a port that the system chooses."""
    return TCPStore("localhost", 0, is_master=True, timeout=_MEETING, wait_for_workers=False)


def a_gpu() -> str:
    """Name the GPU that this process sends from or receives on; empty: it has none."""
    if not torch.cuda.is_available():
        return ""
    return str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of one member in its group."""

    group: str
    rank: int
    size: int
    over_nccl: bool


class Group:
    """One member's end of a process group; rank 0 sends, the others receive.

    A call that fails raises RuntimeError, and the group cannot be used any more. Dropping it closes
    its connections, so that the others' calls fail too.
    """

    def __init__(self, store: Store, place: Place) -> None:
        """Meet the others.

        Raises:
            RuntimeError: they did not all come.
        """
        self.place = place
        self._device = torch.device("cuda") if place.over_nccl else torch.device("cpu")
        of_group = PrefixStore(f"group-{place.group}", store)
        self._group = (_over_nccl if place.over_nccl else _over_gloo)(of_group, place)

    def send(self, data: Bytes) -> int:
        """Send bytes to all; return their CRC32C."""
        view = memoryview(data)
        staged = torch.empty(PART_BYTES, dtype=torch.uint8, pin_memory=self.place.over_nccl)
        buffers = [self._buffer() for _ in range(2)]
        works: deque[Any] = deque()
        crc32c = 0
        for number, (start, stop) in enumerate(_parts(len(view))):
            if len(works) == len(buffers):
                works.popleft().wait()
            part = view[start:stop]
            crc32c = google_crc32c.extend(crc32c, bytes(part))
            buffer = buffers[number % len(buffers)][: len(part)]
            _fill(buffer, part, staged=staged)
            works.append(self._broadcast(buffer))
        for work in works:
            work.wait()
        self._settle()
        return crc32c

    def receive(self, into: memoryview) -> int:
        """Receive as many bytes as memory has; return their CRC32C."""
        data = torch.from_numpy(np.asarray(into))
        buffers = [self._buffer() for _ in range(2)] if self.place.over_nccl else []
        under_way: deque[tuple[Any, Tensor, Tensor]] = deque()
        crc32c = 0
        for number, (start, stop) in enumerate(_parts(len(into))):
            here = data[start:stop]
            buffer = buffers[number % 2][: stop - start] if buffers else here
            if len(under_way) == 2:  # noqa: PLR2004  # one travels while one is copied
                crc32c = _landed(crc32c, *under_way.popleft())
            under_way.append((self._broadcast(buffer), buffer, here))
        for each in under_way:
            crc32c = _landed(crc32c, *each)
        return crc32c

    def _buffer(self) -> Tensor:
        return torch.empty(PART_BYTES, dtype=torch.uint8, device=self._device)

    def _broadcast(self, buffer: Tensor) -> Any:
        options = dist.BroadcastOptions()
        options.rootRank = 0
        options.timeout = _PART
        return self._group.broadcast([buffer], options)

    def _settle(self) -> None:
        if self.place.over_nccl:
            torch.cuda.current_stream().synchronize()


def _over_nccl(store: Store, place: Place) -> Any:
    # Only torch's builds for GPUs have it.
    from torch._C._distributed_c10d import ProcessGroupNCCL  # noqa: PLC0415

    # torch's stubs do not know this form.
    return ProcessGroupNCCL(store, place.rank, place.size, timeout=_MEETING)  # type: ignore[call-arg]


def _over_gloo(store: Store, place: Place) -> Any:
    return ProcessGroupGloo(store, place.rank, place.size, timeout=_MEETING)


def _parts(num_bytes: int) -> Iterator[tuple[int, int]]:
    for start in range(0, num_bytes, PART_BYTES):
        yield start, min(start + PART_BYTES, num_bytes)


def _fill(buffer: Tensor, part: memoryview, *, staged: Tensor) -> None:
    # A model's bytes are not to be written to, and torch takes only those that may be.
    host = staged[: len(part)] if buffer.is_cuda else buffer
    host.numpy().data[:] = part
    if buffer.is_cuda:
        buffer.copy_(host)


def _landed(crc32c: int, work: Any, buffer: Tensor, here: Tensor) -> int:
    """Wait for a part and put it in its place; return the checksum with it."""
    work.wait()
    if buffer.is_cuda:
        here.copy_(buffer)
    return int(google_crc32c.extend(crc32c, here.numpy().tobytes()))
