"""Clients of the coordinator for rollout workers and the trainer.

``follower_client`` has what every worker shares. Both clients survive a coordinator's restart: they
retry calls with backoff for ``Launch.startup_deadline_seconds``, and send unacknowledged deliveries
again.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, Self, TypeVar

import grpc
import grpc.aio

from hetrl_core.job.identity import Value
from hetrl_core.launch import Address, Launch
from hetrl_core.task import Role, Task
from hetrl_runtime.tracing.span import TRACEPARENT
from hetrl_runtime.transport.clients.coordinator_link import (
    CALL_SECONDS,
    CoordinatorLink,
    is_epoch_over,
)
from hetrl_runtime.transport.clients.deliveries import Deliveries
from hetrl_runtime.transport.clients.follower_client import FollowerClient
from hetrl_runtime.transport.errors import RunEnded
from hetrl_runtime.wire import codec
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.trajectory import FailedTrajectory, SampledTrajectory, TrajectoryId
from hetrl_runtime.wire.values import (
    Ending,
    Outcome,
    ProcessStatus,
    PromptLease,
    Registration,
    ResumePoint,
    StepReport,
)

WAIT_SECONDS = 10.0
"""How long the coordinator holds a question that it cannot answer yet."""

Result = TypeVar("Result")


class WorkerClient(FollowerClient):
    """A rollout worker's side of the coordinator, for one event loop.

    Use it as ``async with WorkerClient(launch, process="rollout-l4-0-3") as client:``; entering
    registers. A worker runs three loops over it::

        lease()          -> prompts to generate; () when there is no capacity, or our weights
                            are older than the bound allows: wait for the next announcement
        deliver(...)     -> what became of a trajectory; any outcome ends our part in it
        announcements()  -> a newer version: fetch it, go on; another epoch: abort all
                            generation and fetch; finished: stop

    Heartbeats are sent in the background and keep the leases that were not yet delivered.
    Every method may raise ``Refused``, ``Unreachable`` or ``RunEnded``.
    """

    def __init__(self, launch: Launch, *, process: str, relay: Address | None = None) -> None:
        """``relay`` is where we would serve weights to others of our region, if anywhere."""
        super().__init__(CoordinatorLink(launch, process=process, role=Role.ROLLOUT, relay=relay))
        self._holding: set[TrajectoryId] = set()
        self._deliveries = Deliveries(self._link)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._tasks.append(asyncio.create_task(self._deliveries.keep_sending(), name="deliveries"))
        return self

    def wants(self, identity: TrajectoryId) -> bool:
        """Tell whether a leased trajectory is still ours to finish.

        It is not once it was delivered, its epoch is over, or the coordinator took it back
        because it cannot be finished within the staleness bound.
        """
        return identity in self._holding

    async def lease(self, *, version: int, max_trajectories: int) -> tuple[PromptLease, ...]:
        """Ask for up to ``max_trajectories`` to generate with weights of ``version``.

        Waits some seconds while there is no capacity, then returns ``()``; ask again. After
        the coordinator began a new epoch it registers and returns ``()`` too.
        """
        epoch = self._link.registration.epoch
        request = pb.LeaseRequest(
            epoch=epoch,
            process=self._link.process,
            version=version,
            max_trajectories=max_trajectories,
            wait_seconds=WAIT_SECONDS,
        )
        reply = await self._link.retried(
            lambda: self._link.stub.Lease(request, timeout=WAIT_SECONDS + CALL_SECONDS)
        )
        if reply.register_again:
            await self._begin_epoch(epoch)
            return ()
        leases = tuple(
            PromptLease(
                epoch=epoch,
                group=each.group,
                members=tuple(each.members),
                question=each.question,
                answer=each.answer,
                traceparents=tuple(each.traceparents),
                columns=each.columns,
                messages=each.messages,
            )
            for each in reply.leases
        )
        if epoch == self._link.registration.epoch:
            self._holding.update(identity for lease in leases for identity in lease.ids)
        return leases

    async def deliver(self, trajectory: SampledTrajectory | FailedTrajectory) -> Outcome:
        """Hand a trajectory in; return once the coordinator has acknowledged it.

        Many may be under way at once. A connection that breaks is made again and what was not
        acknowledged is sent again; the coordinator tells duplicates apart.
        """
        try:
            return await self._deliveries.send(trajectory)
        finally:
            # Another epoch may have leased us a trajectory of the same id.
            if trajectory.epoch == self._link.registration.epoch:
                self._holding.discard(trajectory.id)

    def _held(self) -> tuple[TrajectoryId, ...]:
        return tuple(self._holding)

    def _take_back(self, withdrawn: Iterable[TrajectoryId]) -> None:
        self._holding.difference_update(withdrawn)

    def _leave_epoch(self) -> None:
        self._holding.clear()


class TrainerClient:
    """The trainer's side of the coordinator: plain blocking calls for a torch loop.

    An event loop of its own runs in a thread, sends heartbeats and finds a restarted
    coordinator again. One step is::

        with TrainerClient(launch, process="trainer-a100-0-0") as client:
            client.register(checkpoint.resume_point)
            while step < launch.training.steps:
                batch = client.next_batch(version=step)
                ...                                       # train, publish the weights
                resume_point = client.commit(version=step + 1, consumed=[...], discarded=[...],
                                             report=StepReport(...))
                # keep resume_point with the checkpoint of this version
            client.conclude(version=step, ending=Ending(reason=ALL_STEPS_DONE))

    Only the first training replica has one. Weights are published before the commit that
    announces them. Every method may raise ``Refused``, ``Unreachable`` or ``RunEnded``.
    """

    def __init__(self, launch: Launch, *, process: str) -> None:
        self._launch = launch
        self._process = process
        self._needs_reference = Task.REFERENCE_INFERENCE in launch.inference_tasks
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="coordinator-client", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._follower.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def register(self, resume: ResumePoint, *, data: Value | None = None) -> Registration:
        """Tell the coordinator where the surviving history ends; it rewinds its ledger to it.

        ``data`` are those that this history is of. The coordinator refuses a trainer of others.
        """
        return self._run(self._follower.register(resume, data=data))

    @property
    def data(self) -> Value:
        """The data that prompts are from, once registered."""
        return self._follower.registration.data

    def report(self, status: ProcessStatus) -> None:
        """Set the status that the next heartbeats send."""
        self._link.status = status

    def next_batch(self, *, version: int) -> list[SampledTrajectory]:
        """Wait for the batch that ``version`` trains on, in whole groups, oldest first.

        Asked again for the same version it is the same batch. The wait ends with
        ``RunEnded`` when the coordinator gives the run up, with a reason.
        """
        return self._run(self._next_batch(version))

    def commit(
        self,
        *,
        version: int,
        consumed: Sequence[TrajectoryId],
        discarded: Sequence[TrajectoryId] = (),
        report: StepReport,
        ending: Ending | None = None,
        traceparent: str = "",
    ) -> ResumePoint:
        """Move the run to ``version``; return the place to resume from, for the checkpoint.

        ``discarded`` names what the strict check refused, ``traceparent`` the step's span.
        ``ending`` ends the run with a reason; after ``training.steps`` versions that is for
        ``conclude``. Sending a commit twice has the effect of sending it once.
        """
        request = pb.CommitRequest(
            version=version,
            consumed=codec.encode_ids(tuple(consumed)),
            discarded=codec.encode_ids(tuple(discarded)),
            report=codec.encode_report(report),
            finished=ending is not None,
            reason=ending.reason if ending else "",
            message=ending.message if ending else "",
        )
        return self._run(self._commit(request, traceparent))

    def conclude(self, *, version: int, ending: Ending) -> None:
        """End the run at the version that it has, once nothing of it can be lost any more."""
        self.commit(version=version, consumed=(), report=StepReport(), ending=ending)

    async def _open(self) -> None:
        # On its event loop, which the channel belongs to.
        self._link = CoordinatorLink(
            self._launch,
            process=self._process,
            role=Role.TRAINER,
            needs_reference=self._needs_reference,
        )
        self._follower = FollowerClient(self._link)

    async def _next_batch(self, version: int) -> list[SampledTrajectory]:
        while True:
            batch = await self._in_epoch(lambda epoch: self._ask_for_batch(version, epoch))
            if batch:
                return batch

    async def _ask_for_batch(self, version: int, epoch: int) -> list[SampledTrajectory]:
        request = pb.BatchRequest(epoch=epoch, version=version, wait_seconds=WAIT_SECONDS)
        stream = self._link.stub.NextBatch(request, timeout=WAIT_SECONDS + 3 * CALL_SECONDS)
        batch: list[SampledTrajectory] = []
        async for part in stream:
            batch += [_sampled(message) for message in part.trajectories]
        return batch

    async def _commit(self, request: pb.CommitRequest, traceparent: str) -> ResumePoint:
        metadata = ((TRACEPARENT, traceparent),) if traceparent else ()

        async def send(epoch: int) -> pb.CommitReply:
            request.epoch = epoch
            reply: pb.CommitReply = await self._link.stub.Commit(
                request, timeout=CALL_SECONDS, metadata=metadata
            )
            return reply

        reply = await self._in_epoch(send)
        resume = codec.decode_resume(reply.resume)
        self._link.move_to(resume)
        return resume

    async def _in_epoch(self, call: Callable[[int], Awaitable[Result]]) -> Result:
        """Call with the current epoch, registering again where a restarted coordinator asks."""
        while True:
            epoch = self._link.registration.epoch
            try:
                return await self._link.retried(lambda: call(epoch))  # noqa: B023  # awaited here
            except grpc.aio.AioRpcError as error:
                if not is_epoch_over(error):
                    raise
            await self._link.register_again(epoch=epoch)

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def _sampled(message: bytes) -> SampledTrajectory:
    trajectory = codec.decode_trajectory(message)
    if not isinstance(trajectory, SampledTrajectory):
        raise RunEnded(Ending(reason="CoordinatorFailed", message=f"batch with {trajectory}"))
    return trajectory
