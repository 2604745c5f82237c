"""A worker's end of a broadcast: attend, join the group, receive; or return why that failed."""

import asyncio
import uuid
from datetime import timedelta
from typing import Any

import grpc.aio
from torch._C._distributed_c10d import TCPStore

from hetrl_core.launch import Launch
from hetrl_core.task import Role
from hetrl_runtime.broadcast.group import Group, Place, a_gpu
from hetrl_runtime.compute.buffers import Buffers
from hetrl_runtime.transport.channel import open_channel
from hetrl_runtime.transport.weights.weights import MAX_WEIGHTS_BYTES, Snapshot
from hetrl_runtime.wire import codec
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.hetrl_pb2_grpc import BroadcastsStub

_CALL_SECONDS = 1200.0
_STORE_DEADLINE = timedelta(seconds=10)


class Receiver:
    """Receives what the trainer broadcasts, for one worker; keeps the group of the last time."""

    def __init__(self, launch: Launch, *, process: str) -> None:
        self._launch = launch
        self._process = process
        self._instance = uuid.uuid4().hex
        self._group: Group | None = None
        self._buffers = Buffers()

    async def receive(self, *, have_version: int) -> Snapshot | str:
        """Return the newest weights, or why they did not come this way."""
        place, tls = self._launch.weights, self._launch.tls
        async with open_channel(place, tls, program=Role.TRAINER) as channel:
            call = BroadcastsStub(channel).Attend(
                self._request(have_version), timeout=_CALL_SECONDS
            )
            try:
                return await self._followed(aiter(call))
            except (_NotBroadcastError, RuntimeError, OSError) as error:
                return str(error)
            except grpc.aio.AioRpcError as error:
                return str(error.details()) or str(error.code())
            finally:
                # What is left of the round is no longer ours.
                call.cancel()

    def _request(self, have_version: int) -> pb.AttendRequest:
        return pb.AttendRequest(
            job=codec.encode_job(self._launch.job),
            process=self._process,
            instance=self._instance,
            have_version=have_version,
            wait_seconds=10.0,
            gpu=a_gpu(),
        )

    async def _followed(self, notices: Any) -> Snapshot:
        invitation = (await _next(notices)).invitation
        if invitation.total_bytes > MAX_WEIGHTS_BYTES:
            raise RuntimeError(f"{invitation.total_bytes} bytes are more than {MAX_WEIGHTS_BYTES}")
        data = self._buffers.acquire(invitation.total_bytes)
        group, self._group = self._group, None
        (group, crc32c), outcome = await asyncio.gather(
            asyncio.to_thread(_received, invitation, group, data), _outcome(notices)
        )
        if crc32c != outcome.crc32c:
            raise _NotBroadcastError("what was received has a wrong checksum")
        self._group = group
        return Snapshot(version=invitation.version, data=data, was_broadcast=True)


class _NotBroadcastError(Exception):
    """The trainer sends nothing, or could not send it to all."""


def _received(
    invitation: pb.BroadcastInvitation, group: Group | None, into: memoryview
) -> tuple[Group, int]:
    """Receive among the members of the last time, or meet others; return who, and the checksum."""
    if group is None or group.place.group != invitation.group:
        group = _met(invitation)
    return group, group.receive(into)


def _met(invitation: pb.BroadcastInvitation) -> Group:
    store = TCPStore(
        invitation.store_host, invitation.store_port, is_master=False, timeout=_STORE_DEADLINE
    )
    place = Place(
        group=invitation.group,
        rank=invitation.rank,
        size=invitation.size,
        over_nccl=invitation.over_nccl,
    )
    return Group(store, place)


async def _next(notices: Any) -> pb.BroadcastNotice:
    try:
        return await anext(notices)
    except StopAsyncIteration:
        raise _NotBroadcastError("the trainer has nothing to broadcast") from None


async def _outcome(notices: Any) -> pb.BroadcastOutcome:
    outcome = (await _next(notices)).outcome
    if outcome.problem:
        raise _NotBroadcastError(outcome.problem)
    return outcome
