"""The trainer's end of a broadcast: workers attend by gRPC, one thread runs round after round.

Publishing does not wait for it, so training goes on while weights travel. An error is reported to
all members of the round, which then fetch the same weights by ``transport.weights.fetching``.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Self

import grpc

from hetrl_core.launch import JobIdentity, Launch
from hetrl_runtime.broadcast.group import Group, Place, a_gpu, a_store
from hetrl_runtime.broadcast.rounds import Attendant, Gathering, Round
from hetrl_runtime.transport.weights.weights import Snapshot, WeightServer, require_job
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.hetrl_pb2_grpc import BroadcastsServicer, add_BroadcastsServicer_to_server

log = logging.getLogger(__name__)

_PARTING_SECONDS = 5.0
_ROUND_SECONDS = 600.0
"""For a round to begin, and to end: what each waits for has shorter deadlines of its own."""


@dataclass(slots=True, eq=False)
class _Attendance:
    """One worker's call, from its coming to the end of its round."""

    attendant: Attendant
    invitation: pb.BroadcastInvitation | None = None
    outcome: pb.BroadcastOutcome | None = None
    is_over: bool = False
    """Whether the worker hung up, or died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """A round whose members are invited."""

    round: Round
    snapshot: Snapshot
    attendances: tuple[_Attendance, ...]


class Sender:
    """Broadcasts what a weight server publishes; use it as a context manager inside that's."""

    def __init__(self, launch: Launch, server: WeightServer) -> None:
        """Prepare to serve where the weight server does."""
        self._launch = launch
        self._server = server
        self._changed = threading.Condition()
        self._gathering = Gathering(trainer=uuid.uuid4().hex, gpu=a_gpu())
        self._attendances: list[_Attendance] = []
        self._is_closing = False
        self._store = a_store()
        self._group: Group | None = None
        self._thread = threading.Thread(target=self._lead, name="weights-broadcast", daemon=True)
        server.also_serve(partial(add_BroadcastsServicer_to_server, _Servicer(self, launch.job)))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        # Who receives may have stopped to; what it waits for ends with its own deadline.
        self._thread.join(_PARTING_SECONDS)

    def attend(
        self, request: pb.AttendRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.BroadcastNotice]:
        """Yield an invitation and then an outcome, where there are weights that a worker wants."""
        wanted = pb.FetchRequest(
            have_version=request.have_version, wait_seconds=request.wait_seconds
        )
        if self._server.wait_for(wanted) is None:
            return
        attendance = _Attendance(
            Attendant(process=request.process, instance=request.instance, gpu=request.gpu)
        )
        self._enter(attendance)
        if not context.add_callback(partial(self._leave, attendance)):
            self._leave(attendance)
        if self._comes(attendance, lambda: attendance.invitation is not None):
            yield pb.BroadcastNotice(invitation=attendance.invitation)
        if self._comes(attendance, lambda: attendance.outcome is not None):
            yield pb.BroadcastNotice(outcome=attendance.outcome)

    def _enter(self, attendance: _Attendance) -> None:
        with self._changed:
            self._attendances.append(attendance)
            self._gathering.enter(attendance.attendant, now=time.monotonic())
            self._changed.notify_all()

    def _leave(self, attendance: _Attendance) -> None:
        with self._changed:
            attendance.is_over = True
            self._attendances.remove(attendance)
            if attendance.invitation is None:
                self._gathering.leave(attendance.attendant)
            self._changed.notify_all()

    def _comes(self, attendance: _Attendance, has_come: Callable[[], bool]) -> bool:
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_closing or attendance.is_over or has_come(), timeout=_ROUND_SECONDS
            )
            return has_come()

    # consumes: attendances   waits for: enough of them   unblocks: their workers
    def _lead(self) -> None:
        while (begun := self._next()) is not None:
            outcome = self._broadcast(begun)
            with self._changed:
                if outcome.problem:
                    self._gathering.fail()
                for each in begun.attendances:
                    each.outcome = outcome
                self._changed.notify_all()
            if outcome.problem:
                # This waits for transfers to members that are gone.
                self._group = None

    def _next(self) -> _Begun | None:
        """Wait for a round to begin and invite its members; None where no more begins."""
        with self._changed:
            while not self._is_closing:
                left = self._gathering.seconds_left(now=time.monotonic())
                if left == 0.0 and (snapshot := self._server.newest):
                    return self._invited(self._gathering.begin(), snapshot)
                self._changed.wait(timeout=left)
        return None

    def _invited(self, begun: Round, snapshot: Snapshot) -> _Begun:
        invited = []
        for rank, attendant in enumerate(begun.attendants, start=1):
            for each in self._attendances:
                if each.attendant == attendant and each.invitation is None:
                    each.invitation = self._invitation(begun, snapshot, rank=rank)
                    invited.append(each)
        self._changed.notify_all()
        return _Begun(round=begun, snapshot=snapshot, attendances=tuple(invited))

    def _invitation(self, begun: Round, snapshot: Snapshot, *, rank: int) -> pb.BroadcastInvitation:
        return pb.BroadcastInvitation(
            group=begun.group,
            store_host=self._launch.weights.host,
            store_port=self._store.port,
            rank=rank,
            size=begun.size,
            over_nccl=begun.over_nccl,
            version=snapshot.version,
            total_bytes=len(snapshot.data),
        )

    def _broadcast(self, begun: _Begun) -> pb.BroadcastOutcome:
        """Send a round's weights; return the outcome."""
        started_at = time.monotonic()
        version, num_readers = begun.snapshot.version, len(begun.attendances)
        try:
            crc32c = self._group_of(begun.round).send(begun.snapshot.data)
        except RuntimeError as error:
            # As words: the error itself holds on to what it happened in, and so to the group.
            problem = str(error)
            log.warning("not broadcast: version=%d readers=%d %s", version, num_readers, problem)
            return pb.BroadcastOutcome(problem=problem)
        log.info(
            "weights broadcast: version=%d readers=%d seconds=%.3f over_nccl=%s",
            version,
            num_readers,
            time.monotonic() - started_at,
            begun.round.over_nccl,
        )
        return pb.BroadcastOutcome(crc32c=crc32c)

    def _group_of(self, begun: Round) -> Group:
        """Return the group of a round's members, which is there already where they are the same.

        Raises:
            RuntimeError: they did not all come.
        """
        if self._group and self._group.place.group == begun.group:
            return self._group
        place = Place(
            group=begun.group,
            rank=0,
            size=begun.size,
            over_nccl=begun.over_nccl,
        )
        self._group = None
        self._group = Group(self._store, place)
        return self._group


class _Servicer(BroadcastsServicer):
    def __init__(self, sender: Sender, job: JobIdentity) -> None:
        self._sender = sender
        self._job = job

    def Attend(  # noqa: N802  # the name is the protocol's
        self, request: pb.AttendRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.BroadcastNotice]:
        require_job(request.job, self._job, context)
        yield from self._sender.attend(request, context)
