"""The coordinator's side of the protocol: messages in, ``Run`` asked, messages out.

Waiting calls::

    Lease      waits for capacity, or newer weights of the worker   unblocked by: room, any change
    NextBatch  waits for whole groups of the current version        unblocked by: batch, any change
    Watch      waits for news                                       unblocked by: any change

A change is a commit, an expiry, a registration or the end. Thousands of deliveries a second unblock
only the calls that they can affect, and in batches.
"""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import grpc
from grpc.aio import ServicerContext as Context

from hetrl_core.task import Role
from hetrl_runtime.coordinator.notifier import Notifier
from hetrl_runtime.coordinator.registration import (
    MAX_MEMBERS,
    Refused,
    member_of,
    oversized_report,
    status_of,
)
from hetrl_runtime.coordinator.rules.commits import CommitRefused
from hetrl_runtime.coordinator.rules.data_changes import DataChangedError
from hetrl_runtime.coordinator.rules.members import Member
from hetrl_runtime.coordinator.rules.state import WorkerBehind
from hetrl_runtime.coordinator.run import Run
from hetrl_runtime.process.faults import FaultPoints, Point, passing
from hetrl_runtime.tracing.span import TRACEPARENT
from hetrl_runtime.transport.callers import caller_role, foreign_name
from hetrl_runtime.transport.channel import abort
from hetrl_runtime.transport.event_loop import wait_at_most
from hetrl_runtime.wire import codec
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.delivered import DeliveredTrajectory
from hetrl_runtime.wire.hetrl_pb2_grpc import CoordinatorServicer
from hetrl_runtime.wire.validation import wait_of
from hetrl_runtime.wire.values import Announcement, Ending, PromptLease

log = logging.getLogger(__name__)

_LONGEST_WAIT_SECONDS = 30.0
_GATHER_SECONDS = 0.005
"""How long deliveries are gathered before waiting requests are evaluated again."""
_MAX_REASON_CHARS, _MAX_MESSAGE_CHARS = 64, 4096

Answer = TypeVar("Answer")


class CoordinatorService(CoordinatorServicer):
    """The gRPC service of one run; all calls are on one event loop."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._loop = asyncio.get_running_loop()
        self._news = Notifier()
        self._room = Notifier()
        self._batch = Notifier()
        self._committing = asyncio.Lock()
        self._gathering: asyncio.TimerHandle | None = None
        self._unwritten: list[asyncio.Future[None]] = []

    def announce_change(self) -> None:
        """Evaluate every waiting request again."""
        for notifier in (self._news, self._room, self._batch):
            notifier.notify()

    def _gather_deliveries(self) -> None:
        if self._gathering is None:
            self._gathering = self._loop.call_later(_GATHER_SECONDS, self._announce_deliveries)

    def _announce_deliveries(self) -> None:
        self._gathering = None
        if self._run.ending:
            self.announce_change()
        if self._run.state.capacity:
            self._room.notify()
        self._batch.notify()

    async def _written(self) -> None:
        """Wait until the journal has what was accepted; all of one turn of the loop share a write.

        A write lets other threads run, and on a busy core that takes longer than the write.
        """
        if not self._unwritten:
            self._loop.call_soon(self._write)
        written = self._loop.create_future()
        self._unwritten.append(written)
        await written
        if failure := self._run.journal.failure:
            raise failure

    def _write(self) -> None:
        waiting, self._unwritten = self._unwritten, []
        # Those that wait read the journal's ``failure``.
        with contextlib.suppress(OSError):
            self._run.journal.write_deliveries()
        for written in waiting:
            if not written.done():
                written.set_result(None)

    async def Register(  # noqa: N802  # the names are the protocol's
        self, request: pb.RegisterRequest, context: Context
    ) -> pb.RegisterReply:
        """Register a process of this job; refuse those of other jobs."""
        now = time.monotonic()
        caller = caller_role(context.auth_context())
        member = member_of(request, job=self._run.launch.job, role=caller, now=now)
        if isinstance(member, Refused):
            log.warning("process refused: %s", member.details)
            await abort(context, member.code, member.details)
        await self._abort_if_ended(context)
        await self._abort_if_full(member, context)
        try:
            resume = codec.decode_resume(request.resume) if request.HasField("resume") else None
        except ValueError as error:
            await abort(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))
        try:
            registration = self._run.register(
                member, resume=resume, now=now, data=codec.decode_data(request.data)
            )
        except DataChangedError as error:
            await abort(context, grpc.StatusCode.PERMISSION_DENIED, str(error))
        self.announce_change()
        return pb.RegisterReply(
            epoch=registration.epoch,
            version=registration.version,
            data=codec.encode_data(registration.data),
        )

    async def Lease(  # noqa: N802
        self, request: pb.LeaseRequest, context: Context
    ) -> pb.LeaseReply:
        """Lease prompts; wait for capacity, or until the worker must fetch newer weights."""
        await _require_own_name(request.process, context)
        if not self._run.knows(request.process, epoch=request.epoch):
            return pb.LeaseReply(register_again=True)

        def ask() -> tuple[PromptLease, ...]:
            leases = self._run.lease(
                request.process,
                worker_version=request.version,
                max_trajectories=request.max_trajectories,
                now=time.monotonic(),
            )
            is_behind = isinstance(leases, WorkerBehind)
            self._run.workers_waiting[request.process] = is_behind
            return () if isinstance(leases, WorkerBehind) else leases

        def is_outdated() -> bool:
            # The request names the weights of its time: the worker must ask again with newer ones.
            is_behind = self._run.workers_waiting.get(request.process, False)
            return is_behind and self._run.state.version > request.version

        try:
            leases = await self._wait_for(
                self._room,
                ask,
                request.wait_seconds,
                unless=lambda: self._is_over(request.epoch) or is_outdated(),
            )
        finally:
            self._run.workers_waiting.pop(request.process, None)
        await self._abort_if_ended(context)
        return pb.LeaseReply(
            leases=[_lease(each) for each in leases or ()],
            register_again=request.epoch != self._run.state.epoch,
        )

    async def Deliver(  # noqa: N802
        self, requests: AsyncIterator[pb.Trajectories], _context: Context
    ) -> AsyncIterator[pb.DeliveryReceipts]:
        """Accept or refuse trajectories and acknowledge each."""
        async for part in requests:
            receipts = self._run.deliver(part.trajectories, now=time.monotonic())
            await self._written()
            self._gather_deliveries()
            yield pb.DeliveryReceipts(receipts=receipts)

    async def Heartbeat(  # noqa: N802
        self, request: pb.HeartbeatRequest, context: Context
    ) -> pb.HeartbeatReply:
        """Keep a process and its leases alive."""
        await _require_own_name(request.process, context)
        status = status_of(request)
        if isinstance(status, Refused):
            await abort(context, status.code, status.details)
        if not self._run.knows(request.process, epoch=request.epoch):
            return pb.HeartbeatReply(register_again=self._run.ending is None)
        if request.leaving:
            self._run.leave(request.process)
            self.announce_change()
            return pb.HeartbeatReply()
        withdrawn = self._run.heartbeat(
            request.process,
            status,
            codec.decode_ids(request.holding),
            now=time.monotonic(),
        )
        return pb.HeartbeatReply(withdrawn=codec.encode_ids(withdrawn))

    async def Watch(  # noqa: N802
        self, request: pb.WatchRequest, context: Context
    ) -> AsyncIterator[pb.Announcement]:
        """Announce the newest version, and every change of it, until the run is over."""
        await _require_own_name(request.process, context)
        last: Announcement | None = None
        while last is None or not last.finished:
            heard = self._news.next()
            news = self._run.announcement(request.process, now=time.monotonic())
            if (news.epoch or news.finished) and news != last:
                yield _announcement(news)
                last = news
            else:
                await heard.wait()

    async def NextBatch(  # noqa: N802
        self, request: pb.BatchRequest, context: Context
    ) -> AsyncIterator[pb.Trajectories]:
        """Hand out the batch of the current version, waiting until it is full."""
        await self._require_epoch(request.epoch, context)
        await self._follow_the_trainer(request.version, context)
        if request.version != self._run.state.version:
            await abort(
                context,
                grpc.StatusCode.INVALID_ARGUMENT,
                f"a batch for version {request.version} was asked for, "
                f"but version {self._run.state.version} is being trained",
            )

        def ask() -> tuple[DeliveredTrajectory, ...]:
            return self._run.batch(now=time.monotonic())

        self._run.trainer_waits = True
        try:
            batch = await self._wait_for(
                self._batch,
                ask,
                request.wait_seconds,
                unless=lambda: self._is_over(request.epoch),
            )
        finally:
            self._run.trainer_waits = False
        await self._require_epoch(request.epoch, context)
        for part in codec.in_parts(each.data for each in batch or ()):
            yield part
            passing(Point.BATCH_SENT)

    async def Commit(  # noqa: N802
        self, request: pb.CommitRequest, context: Context
    ) -> pb.CommitReply:
        """Move the run to the next version."""
        if problem := oversized_report(request.report):
            await abort(context, grpc.StatusCode.INVALID_ARGUMENT, problem)
        await self._require_epoch(request.epoch, context, unless_ended=False)
        await self._follow_the_trainer(request.version - 1, context)
        # One that is sent again must not be answered before the first is on the disk.
        async with self._committing:
            done = self._run.commit(
                request.version,
                consumed=codec.decode_ids(request.consumed),
                discarded=codec.decode_ids(request.discarded),
                report=codec.decode_report(request.report),
                ending=_ending(request),
                now=time.monotonic(),
                traceparent=_traceparent(context),
            )
            if isinstance(done, CommitRefused):
                await abort(context, grpc.StatusCode.INVALID_ARGUMENT, done.reason)
            # A disk takes as long as some hundred deliveries, which need not wait for it.
            with FaultPoints(after=Point.COMMIT_FORCED):
                await asyncio.to_thread(self._run.journal.forcing())
        self.announce_change()
        ending = self._run.ending
        return pb.CommitReply(
            resume=codec.encode_resume(done),
            finished=ending is not None,
            reason=ending.reason if ending else "",
        )

    async def GetProgress(  # noqa: N802
        self, _request: pb.ProgressRequest, _context: Context
    ) -> pb.Progress:
        """Return the run's progress."""
        return self._run.progress()

    async def _wait_for(
        self,
        notifier: Notifier,
        ask: Callable[[], Answer],
        wait_seconds: float,
        *,
        unless: Callable[[], bool],
    ) -> Answer | None:
        """Ask at every notification until there is an answer, the wait is over, or it is moot."""
        ends_at = time.monotonic() + wait_of(wait_seconds, longest_seconds=_LONGEST_WAIT_SECONDS)
        while not unless():
            given = notifier.next()
            if answer := ask():
                return answer
            if unless():
                break
            left = ends_at - time.monotonic()
            if left <= 0 or not await wait_at_most(given, left):
                break
        return None

    def _is_over(self, epoch: int) -> bool:
        return self._run.ending is not None or epoch != self._run.state.epoch

    async def _abort_if_full(self, member: Member, context: Context) -> None:
        members = self._run.members
        if len(members) >= MAX_MEMBERS and members.get(member.process) is None:
            details = f"{MAX_MEMBERS} processes are registered, the limit of a run"
            await abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, details)

    async def _require_epoch(
        self, epoch: int, context: Context, *, unless_ended: bool = True
    ) -> None:
        if unless_ended:
            await self._abort_if_ended(context)
        if epoch != self._run.state.epoch:
            await abort(
                context,
                grpc.StatusCode.FAILED_PRECONDITION,
                f"epoch {epoch} is over, this is epoch {self._run.state.epoch}: register again",
            )

    async def _follow_the_trainer(self, version: int, context: Context) -> None:
        """Let a trainer that is further than a damaged journal say where it is."""
        is_unheard = self._run.members.num(Role.TRAINER) == 0
        if is_unheard and version > self._run.state.version:
            await abort(
                context,
                grpc.StatusCode.FAILED_PRECONDITION,
                f"version {version} is not in the journal, which ends at version "
                f"{self._run.state.version}: register again",
            )

    async def _abort_if_ended(self, context: Context) -> None:
        if ending := self._run.ending:
            details = json.dumps({"reason": ending.reason, "message": ending.message})
            await abort(context, grpc.StatusCode.ABORTED, details)


def _lease(lease: PromptLease) -> pb.Lease:
    return pb.Lease(
        group=lease.group,
        members=lease.members,
        question=lease.question,
        answer=lease.answer,
        traceparents=lease.traceparents,
        columns=lease.columns,
        messages=lease.messages,
    )


def _traceparent(context: Context) -> str:
    return str(dict(context.invocation_metadata() or ()).get(TRACEPARENT, ""))


def _announcement(news: Announcement) -> pb.Announcement:
    return pb.Announcement(
        epoch=news.epoch,
        version=news.version,
        weights_address=news.weights_address,
        finished=news.finished,
        reason=news.reason,
        relay_address=news.relay_address,
        inference_endpoints=[codec.encode_endpoint(each) for each in news.inference_endpoints],
    )


def _ending(request: pb.CommitRequest) -> Ending | None:
    if not request.finished:
        return None
    reason = request.reason[:_MAX_REASON_CHARS] or "Unknown"
    return Ending(reason=reason, message=request.message[:_MAX_MESSAGE_CHARS])


async def _require_own_name(process: str, context: Context) -> None:
    """End a call in the name of a process that the caller cannot be."""
    if reason := foreign_name(process, caller_role(context.auth_context())):
        await abort(context, grpc.StatusCode.PERMISSION_DENIED, reason)
