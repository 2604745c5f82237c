"""A client that follows a run: registers, sends heartbeats, receives announcements.

Subclasses add further calls to the coordinator.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Self

import grpc.aio

from hetrl_core.job.identity import Value
from hetrl_runtime.transport.clients.coordinator_link import HEARTBEAT_SECONDS, CoordinatorLink
from hetrl_runtime.transport.errors import TransportError
from hetrl_runtime.wire import codec
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.trajectory import TrajectoryId
from hetrl_runtime.wire.values import Announcement, ProcessStatus, Registration, ResumePoint


class FollowerClient:
    """Registers when it is entered, as ``async with``; heartbeats are sent in the background.

    Every method may raise ``Refused``, ``Unreachable`` or ``RunEnded``.
    """

    def __init__(self, link: CoordinatorLink) -> None:
        self._link = link
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def registration(self) -> Registration:
        """The epoch and version that the coordinator reported last."""
        return self._link.registration

    async def __aenter__(self) -> Self:
        await self.register()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def register(
        self, resume: ResumePoint | None = None, *, data: Value | None = None
    ) -> Registration:
        """Register, a trainer with its place on its history in data; heartbeats follow."""
        registration = await self._link.register(resume, data=data)
        if not self._tasks:
            self._tasks.append(asyncio.create_task(self._keep_alive(), name="heartbeats"))
        return registration

    async def close(self) -> None:
        """Leave the run, if we registered, and close the connection."""
        if self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            with contextlib.suppress(grpc.aio.AioRpcError):
                await self._link.heartbeat(leaving=True)
        await self._link.close()

    def report(self, status: ProcessStatus) -> None:
        """Set the status that the next heartbeats send."""
        self._link.status = status

    async def announcements(self) -> AsyncIterator[Announcement]:
        """Yield the newest version at once and then every change; end after ``finished``."""
        last: Announcement | None = None
        while True:
            lost: grpc.aio.AioRpcError | None = None
            try:
                async for message in self._link.stub.Watch(
                    pb.WatchRequest(process=self._link.process)
                ):
                    news = _announcement(message)
                    if news != last:
                        yield news
                    if news.finished:
                        return
                    last = news
            except grpc.aio.AioRpcError as error:
                lost = error
            await self._link.wait_to_reopen(lost)

    def _held(self) -> tuple[TrajectoryId, ...]:
        """Return the leases to keep alive."""
        return ()

    def _take_back(self, withdrawn: Iterable[TrajectoryId]) -> None:
        """Give up leases that the coordinator has taken back."""

    def _leave_epoch(self) -> None:
        """Drop the leases of an epoch that is over."""

    async def _keep_alive(self) -> None:
        while True:
            epoch = self._link.registration.epoch
            # Final errors are raised to callers and listeners.
            with contextlib.suppress(grpc.aio.AioRpcError, TransportError):
                reply = await self._link.heartbeat(self._held())
                self._take_back(codec.decode_ids(reply.withdrawn))
                if reply.register_again:
                    await self._begin_epoch(epoch)
            await asyncio.sleep(HEARTBEAT_SECONDS)

    async def _begin_epoch(self, epoch: int) -> None:
        registration = await self._link.register_again(epoch=epoch)
        if registration.epoch != epoch:
            self._leave_epoch()


def _announcement(message: pb.Announcement) -> Announcement:
    return Announcement(
        epoch=message.epoch,
        version=message.version,
        weights_address=message.weights_address,
        finished=message.finished,
        reason=message.reason,
        relay_address=message.relay_address,
        inference_endpoints=tuple(
            codec.decode_endpoint(each) for each in message.inference_endpoints
        ),
    )
