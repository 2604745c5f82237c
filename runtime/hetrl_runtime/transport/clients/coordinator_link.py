"""A process's connection to the coordinator: registered, kept alive, re-established.

It registers, sends heartbeats and retries calls while the coordinator restarts.
``coordinator_client`` has the calls.
"""

import asyncio
import json
import logging
import random
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict
from typing import TypeVar

import grpc
import grpc.aio

from hetrl_core.job.identity import UNKNOWN, Value
from hetrl_core.launch import Address, Launch
from hetrl_core.task import Role
from hetrl_runtime.transport.channel import open_channel
from hetrl_runtime.transport.errors import Refused, RunEnded, Unreachable
from hetrl_runtime.wire import codec
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.hetrl_pb2_grpc import CoordinatorStub
from hetrl_runtime.wire.trajectory import TrajectoryId
from hetrl_runtime.wire.values import (
    Ending,
    InferenceEndpoint,
    ProcessStatus,
    Registration,
    ResumePoint,
)

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 2.0
CALL_SECONDS = 20.0
"""Deadline of one attempt of a call that does not wait for anything."""

_WORTH_RETRYING = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
}

Reply = TypeVar("Reply")


class CoordinatorLink:
    """Registers a process with its coordinator and keeps it registered.

    ``timeout_seconds`` is how long the coordinator may be away before a call gives up with
    ``Unreachable``; the launch contract's start-up deadline, because a coordinator that
    moves to another machine needs as long as one that starts.
    """

    def __init__(
        self,
        launch: Launch,
        *,
        process: str,
        role: Role,
        relay: Address | None = None,
        inference: InferenceEndpoint | None = None,
        needs_reference: bool = False,
    ) -> None:
        """Open a channel; ``register`` comes first.

        Args:
            launch: where the coordinator is.
            process: our name in the run.
            role: what we do.
            relay: where we would serve weights to others of our region.
            inference: our inference endpoint, if we are an inference worker.
            needs_reference: whether we train on what comes with a reference's words alone.
        """
        self.launch = launch
        self.process = process
        self.timeout_seconds = launch.startup_deadline_seconds
        self.status = ProcessStatus()
        self.registration = Registration(epoch=0, version=0)
        self._role = role
        self._relay = relay
        self._inference = inference
        self._needs_reference = needs_reference
        self._instance = uuid.uuid4().hex
        self._resume: ResumePoint | None = None
        self._data = UNKNOWN
        self._channel = open_channel(launch.coordinator, launch.tls, program=Role.COORDINATOR)
        self.stub = CoordinatorStub(self._channel)
        self._registering = asyncio.Lock()
        self._heard_at = time.monotonic()

    async def register(
        self, resume: ResumePoint | None = None, *, data: Value | None = None
    ) -> Registration:
        """Make ourselves known; ``resume`` is the trainer's place on its history, in ``data``.

        Raises:
            Refused: the coordinator is another job's, or has other data.
            RunEnded: the run is over.
            Unreachable: no coordinator answered within the deadline.
        """
        if resume is not None:
            self._resume = resume
        if data is not None:
            self._data = data
        request = pb.RegisterRequest(
            job=codec.encode_job(self.launch.job),
            process=self.process,
            role=str(self._role),
            instance=self._instance,
            resume=None if self._resume is None else codec.encode_resume(self._resume),
            concurrency=self.launch.concurrency,
            pod_set=self.launch.pod_set,
            region=self.launch.region,
            relay_address=str(self._relay or ""),
            inference=codec.encode_endpoint(self._inference) if self._inference else None,
            needs_reference=self._needs_reference,
            data=codec.encode_data(self._data),
        )
        reply = await self.retried(lambda: self.stub.Register(request, timeout=CALL_SECONDS))
        self.registration = Registration(
            epoch=reply.epoch, version=reply.version, data=codec.decode_data(reply.data)
        )
        self._data = self.registration.data
        log.info(
            "registered with the coordinator: process=%s epoch=%d version=%d",
            self.process,
            reply.epoch,
            reply.version,
        )
        return self.registration

    def move_to(self, resume: ResumePoint) -> None:
        """Remember where a later registration has to go on from."""
        self._resume = resume

    async def register_again(self, *, epoch: int) -> Registration:
        """Register unless someone else has since ``epoch`` was seen to be over."""
        async with self._registering:
            if self.registration.epoch == epoch:
                await self.register()
            return self.registration

    async def heartbeat(
        self, holding: tuple[TrajectoryId, ...] = (), *, leaving: bool = False
    ) -> pb.HeartbeatReply:
        """Say once that we live and what we hold."""
        request = pb.HeartbeatRequest(
            epoch=self.registration.epoch,
            process=self.process,
            **asdict(self.status),
            holding=codec.encode_ids(holding),
            leaving=leaving,
        )
        reply: pb.HeartbeatReply = await self.stub.Heartbeat(request, timeout=CALL_SECONDS)
        self._heard_at = time.monotonic()
        return reply

    async def retried(self, call: Callable[[], Awaitable[Reply]]) -> Reply:
        """Await a call until it is answered, backing off while the coordinator is away.

        Raises:
            Refused, RunEnded, Unreachable: as the errors' own words say.
        """
        started_at = time.monotonic()
        for pause in backoff_seconds():
            try:
                return await call()
            except grpc.aio.AioRpcError as error:
                self._give_up_if_final(error, quiet_since=started_at)
            await asyncio.sleep(pause)
        raise AssertionError("backoff_seconds never ends")

    async def wait_to_reopen(self, error: grpc.aio.AioRpcError | None) -> None:
        """Pause after a long-lived stream broke; raise when the coordinator is gone for good.

        Unlike a call, a stream may live for days: only the time since the last sign of life
        counts.
        """
        if error is not None:
            self._give_up_if_final(error, quiet_since=self._heard_at)
        await asyncio.sleep(next(backoff_seconds(first=0.5)))

    def _give_up_if_final(self, error: grpc.aio.AioRpcError, *, quiet_since: float) -> None:
        _raise_if_final(error)
        if time.monotonic() - quiet_since > self.timeout_seconds:
            raise Unreachable(
                f"coordinator {self.launch.coordinator} did not answer for "
                f"{self.timeout_seconds:g} s: {error.details()}"
            ) from error

    async def close(self) -> None:
        """Close the connection; calls under way are cancelled."""
        await self._channel.close()


def backoff_seconds(*, first: float = 0.1, largest: float = 3.0) -> Iterator[float]:
    """Yield pauses that double up to a limit, each spread at random over its upper half."""
    pause = first
    while True:
        yield pause * random.uniform(0.5, 1.0)  # noqa: S311  # spreads load, guards nothing
        pause = min(2 * pause, largest)


def is_epoch_over(error: grpc.aio.AioRpcError) -> bool:
    """Tell whether the coordinator does not know us in this epoch: register again."""
    return bool(error.code() is grpc.StatusCode.FAILED_PRECONDITION)


def _raise_if_final(error: grpc.aio.AioRpcError) -> None:
    """Turn an answer that no retry will change into what the process should do."""
    if error.code() is grpc.StatusCode.ABORTED:
        raise RunEnded(_ending(error.details() or "")) from error
    if is_epoch_over(error):
        raise error
    if error.code() not in _WORTH_RETRYING:
        raise Refused(f"{error.code().name}: {error.details()}") from error


def _ending(details: str) -> Ending:
    try:
        fields = json.loads(details)
        return Ending(reason=str(fields["reason"]), message=str(fields["message"]))
    except (ValueError, KeyError, TypeError):
        return Ending(reason="Unknown", message=details)
