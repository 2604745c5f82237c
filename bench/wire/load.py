"""Sixty-four workers and a trainer, as the coordinator sees them, from one process.

Each worker has a connection of its own, leases, sends every trajectory in a message of its own,
and waits for its receipt; heartbeats and announcements go as in a run. The trainer takes batches
and commits them. Nothing is generated or trained on: answers are cut from bytes made before.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import grpc
import grpc.aio
import numpy as np

from bench.wire.stage import LEASE_TRAJECTORIES, NUM_WORKERS, Cost, Stage, as_role
from hetrl_core.launch import Launch
from hetrl_core.task import Role
from hetrl_runtime.transport.channel import open_channel
from hetrl_runtime.transport.clients.coordinator_link import HEARTBEAT_SECONDS
from hetrl_runtime.wire import codec
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.hetrl_pb2_grpc import CoordinatorStub
from hetrl_runtime.wire.trajectory import SampledTrajectory, TrajectoryId

RESPONSE_TOKENS = 512
PROMPT_TOKENS = 64
_TEXT = "so the sum of both is 42, and that is it. " * 48
_DELIVER = "/hetrl.v1.Coordinator/Deliver"
_SAMPLE_EVERY = 10_000


@dataclass(slots=True, kw_only=True)
class Tally:
    """What a load has seen so far."""

    accepted: int = 0
    refused: int = 0
    versions: int = 0
    seconds: list[float] = field(default_factory=list)
    """From the sending of a trajectory to its receipt."""

    costs: list[tuple[int, Cost]] = field(default_factory=list)
    """By trajectories accepted: what the coordinator holds."""

    message_bytes: int = 0


def trajectory_body(version: int) -> bytes:
    """Return a trajectory of a version as bytes, but for who delivers which."""
    rng = np.random.default_rng(version)
    return codec.encode_trajectory(
        SampledTrajectory(
            group=0,
            member=0,
            epoch=0,
            process="",
            prompt_tokens=rng.integers(0, 150_000, PROMPT_TOKENS, dtype=np.int32),
            response_tokens=rng.integers(0, 150_000, RESPONSE_TOKENS, dtype=np.int32),
            behaviour_log_probs=-rng.random(RESPONSE_TOKENS, dtype=np.float32),
            token_versions=np.full(RESPONSE_TOKENS, version, dtype=np.int32),
            reward=1.0,
            finish_reason="stop",
            response_text=_TEXT,
            question="What is 41 + 1?",
            answer="#### 42",
        )
    )


class Worker:
    """One worker's connection and its leases."""

    def __init__(self, number: int, launch: Launch, tally: Tally, bodies: dict[int, bytes]) -> None:
        self._process = f"rollout-{number}"
        self._launch = launch
        self._tally = tally
        self._bodies = bodies
        self._epoch = 0
        self._version = 0
        self._leased: deque[TrajectoryId] = deque()
        self._underway: deque[tuple[TrajectoryId, float]] = deque()

    async def run(self, *, in_flight: int) -> None:
        """Deliver leased trajectories, ``in_flight`` at once, until cancelled."""
        # Without it gRPC would let workers of one process share a connection.
        place = self._launch.coordinator
        async with open_channel(place, self._launch.tls, program=Role.COORDINATOR) as channel:
            stub = CoordinatorStub(channel)
            await self._register(stub)
            tasks = [
                asyncio.create_task(self._follow(stub)),
                asyncio.create_task(self._keep_alive(stub)),
            ]
            stream = channel.stream_stream(_DELIVER)()
            try:
                await self._deliver(stub, stream, in_flight=in_flight)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _register(self, stub: CoordinatorStub) -> None:
        job = self._launch.job
        reply = await stub.Register(
            pb.RegisterRequest(
                job=pb.JobIdentity(namespace=job.namespace, name=job.name, uid=job.uid),
                process=self._process,
                role=str(Role.ROLLOUT),
                instance=self._process,
                concurrency=LEASE_TRAJECTORIES,
            )
        )
        self._epoch, self._version = reply.epoch, reply.version

    async def _deliver(
        self,
        stub: CoordinatorStub,
        stream: grpc.aio.StreamStreamCall,
        *,
        in_flight: int,
    ) -> None:
        while True:
            while len(self._underway) < in_flight:
                if not self._leased:
                    await self._lease(stub)
                    continue
                identity = self._leased.popleft()
                self._underway.append((identity, time.monotonic()))
                await stream.write(self._message(identity))
            receipts = pb.DeliveryReceipts.FromString(await stream.read()).receipts
            now = time.monotonic()
            for receipt in receipts:
                self._note(receipt, now)

    def _note(self, receipt: pb.DeliveryReceipt, now: float) -> None:
        identity, sent_at = self._underway.popleft()
        assert identity == (receipt.group, receipt.member)
        if receipt.outcome == pb.ACCEPTED:
            self._tally.accepted += 1
        else:
            self._tally.refused += 1
        self._tally.seconds.append(now - sent_at)

    def _message(self, identity: TrajectoryId) -> bytes:
        who = pb.Trajectory(
            group=identity.group, member=identity.member, epoch=self._epoch, process=self._process
        ).SerializeToString()
        body = self._bodies.get(self._version)
        if body is None:
            body = self._bodies[self._version] = trajectory_body(self._version)
        self._tally.message_bytes = len(who) + len(body)
        # Two messages one behind the other are one with the fields of both.
        return bytes(pb.Trajectories(trajectories=[who + body]).SerializeToString())

    async def _lease(self, stub: CoordinatorStub) -> None:
        reply = await stub.Lease(
            pb.LeaseRequest(
                epoch=self._epoch,
                process=self._process,
                version=self._version,
                max_trajectories=LEASE_TRAJECTORIES,
                wait_seconds=10.0,
            )
        )
        self._leased.extend(
            TrajectoryId(each.group, member) for each in reply.leases for member in each.members
        )

    async def _follow(self, stub: CoordinatorStub) -> None:
        async for news in stub.Watch(pb.WatchRequest(process=self._process)):
            self._version = news.version

    async def _keep_alive(self, stub: CoordinatorStub) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            held = [*self._leased, *(identity for identity, _ in self._underway)]
            await stub.Heartbeat(
                pb.HeartbeatRequest(
                    epoch=self._epoch,
                    process=self._process,
                    version=self._version,
                    holding=codec.encode_ids(held),
                )
            )


class Trainer:
    """Takes batches and commits them as they come."""

    def __init__(self, launch: Launch, tally: Tally) -> None:
        self._launch = launch
        self._tally = tally

    @staticmethod
    async def registered(stub: CoordinatorStub, launch: Launch) -> int:
        """Begin an epoch; return its number."""
        reply = await stub.Register(
            pb.RegisterRequest(
                job=pb.JobIdentity(
                    namespace=launch.job.namespace, name=launch.job.name, uid=launch.job.uid
                ),
                process="trainer-0",
                role=str(Role.TRAINER),
                instance="trainer",
                resume=pb.ResumePoint(),
            )
        )
        return int(reply.epoch)

    async def run(self, stub: CoordinatorStub, epoch: int) -> None:
        """Train nothing, at once, for as long as it is let."""
        version = 0
        while True:
            ids = [each async for each in self._batch(stub, epoch, version)]
            if not ids:
                continue
            version += 1
            await stub.Commit(pb.CommitRequest(epoch=epoch, version=version, consumed=ids))
            self._tally.versions = version

    async def _batch(
        self, stub: CoordinatorStub, epoch: int, version: int
    ) -> AsyncIterator[pb.TrajectoryId]:
        request = pb.BatchRequest(epoch=epoch, version=version, wait_seconds=10.0)
        async for part in stub.NextBatch(request):
            for each in map(pb.Trajectory.FromString, part.trajectories):
                yield pb.TrajectoryId(group=each.group, member=each.member)


async def put_on(stage: Stage, *, num_trajectories: int, in_flight: int, warm_up: int) -> "Loaded":
    """Deliver trajectories until so many are accepted; return what was seen after the warm-up."""
    tally, bodies = Tally(), dict[int, bytes]()
    launch = as_role(stage.launch, Role.ROLLOUT)
    trainer_launch = as_role(stage.launch, Role.TRAINER)
    place = trainer_launch.coordinator
    async with open_channel(place, trainer_launch.tls, program=Role.COORDINATOR) as channel:
        stub = CoordinatorStub(channel)
        trainer = Trainer(trainer_launch, tally)
        epoch = await trainer.registered(stub, trainer_launch)
        training = asyncio.create_task(trainer.run(stub, epoch))
        workers = [
            asyncio.create_task(Worker(number, launch, tally, bodies).run(in_flight=in_flight))
            for number in range(NUM_WORKERS)
        ]
        await _accepted(tally, stage, warm_up, [training, *workers])
        loaded = await _timed(tally, stage, num_trajectories, [training, *workers])
        for task in (training, *workers):
            task.cancel()
        await asyncio.gather(training, *workers, return_exceptions=True)
    return loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A load that was put on, after its warm-up."""

    accepted: int
    refused: int
    versions: int
    wall_seconds: float
    coordinator_cpu_seconds: float
    load_cpu_seconds: float
    p50_seconds: float
    p99_seconds: float
    max_seconds: float
    message_bytes: int
    costs: list[tuple[int, Cost]]


async def _timed(
    tally: Tally, stage: Stage, num_trajectories: int, tasks: list[asyncio.Task[None]]
) -> Loaded:
    tally.seconds.clear()
    began, before = tally.accepted, stage.cost()
    versions = tally.versions
    started, load_cpu = time.monotonic(), time.process_time()
    await _accepted(tally, stage, began + num_trajectories, tasks)
    wall_seconds, after = time.monotonic() - started, stage.cost()
    took = sorted(tally.seconds)
    return Loaded(
        accepted=tally.accepted - began,
        refused=tally.refused,
        versions=tally.versions - versions,
        wall_seconds=wall_seconds,
        coordinator_cpu_seconds=after.cpu_seconds - before.cpu_seconds,
        load_cpu_seconds=time.process_time() - load_cpu,
        p50_seconds=took[len(took) // 2],
        p99_seconds=took[int(0.99 * len(took))],
        max_seconds=took[-1],
        message_bytes=tally.message_bytes,
        costs=tally.costs,
    )


async def _accepted(
    tally: Tally, stage: Stage, number: int, tasks: list[asyncio.Task[None]]
) -> None:
    """Wait until so many are accepted; raise what a worker or the trainer died of."""
    while tally.accepted < number:
        for task in tasks:
            if task.done():
                task.result()
                raise AssertionError("a worker or the trainer ended by itself")
        if tally.accepted >= _SAMPLE_EVERY * (len(tally.costs) + 1):
            tally.costs.append((tally.accepted, stage.cost()))
        await asyncio.sleep(0.05)
