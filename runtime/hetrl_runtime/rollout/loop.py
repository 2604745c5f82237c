"""The rollout worker's loop: lease, generate, score, deliver, and follow the policy.

    announcements ─▶ fetch weights ─▶ engine ◀── prompts ◀── leases
                                        └─▶ responses ─▶ verifier, inference workers ─▶ coordinator

The coordinator decides which leases it grants and which trajectories it accepts. ``responder``
makes one response; the engine generates its tokens.
"""

import asyncio
import logging

from hetrl_core.launch import Launch
from hetrl_runtime.process.faults import FaultPoints, Point
from hetrl_runtime.rollout.observer import RolloutObserver
from hetrl_runtime.rollout.responder import Equipment, Responder
from hetrl_runtime.tracing.current import active
from hetrl_runtime.transport.errors import RunEnded, ending_of
from hetrl_runtime.transport.event_loop import wait_at_most
from hetrl_runtime.transport.weights.weights import Snapshot
from hetrl_runtime.wire.trajectory import TrajectoryId
from hetrl_runtime.wire.values import Announcement, Ending, PromptLease

log = logging.getLogger(__name__)

REPORT_SECONDS = 0.5

WEIGHTS_SECONDS = 1.0
"""How long weights on their way are waited for before the coordinator is asked once more."""

ANNOUNCEMENT_SECONDS = 0.01
"""Wait after an empty lease reply, until the coordinator has announced the newer weights."""


class RolloutLoop:
    """One worker's run, from its registration to the end of the job."""

    def __init__(self, launch: Launch, *, process: str, equipment: Equipment) -> None:
        self._concurrency = launch.concurrency
        self._engine = equipment.engine
        self._client = equipment.client
        self._weights = equipment.weights
        self._inference = equipment.inference
        self._tracer = equipment.tracer
        self._observer = RolloutObserver(equipment.metrics)
        self._responder = Responder(
            launch, process=process, equipment=equipment, observer=self._observer
        )
        self._generating: dict[asyncio.Task[None], TrajectoryId] = {}
        self._has_place = asyncio.Event()
        self._has_place.set()
        self._epoch = equipment.client.registration.epoch
        self._has_joined_epoch = asyncio.Event()
        self._news: Announcement | None = None
        self._has_news = asyncio.Event()
        self._has_loaded = asyncio.Event()
        self._fetching: asyncio.Task[Snapshot] | None = None

    async def run(self) -> Ending:
        """Work until the run ends; return how it ended.

        Raises:
            TransportError: the coordinator refused us, or it or the trainer is gone.
            EngineFailedError: the engine broke down.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._work(tasks), name="leases")
                tasks.create_task(self._watch(), name="announcements")
                tasks.create_task(self._follow_policy(), name="weights")
                tasks.create_task(self._keep_reporting(), name="status")
        except ExceptionGroup as failures:
            return ending_of(failures)
        raise AssertionError("these tasks never end by themselves")

    # consumes: prompts   waits for: a free place, weights of this epoch, capacity
    async def _work(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            await self._has_place.wait()
            while self._client.registration.epoch > self._epoch:
                # Our weights may be of a branch of history that is given up; and a lease that
                # we take but do not work on would be kept alive by our heartbeats.
                self._has_joined_epoch.clear()
                await self._has_joined_epoch.wait()
            asked_with = self._engine.version
            self._has_loaded.clear()
            leases = await self._client.lease(
                version=asked_with, max_trajectories=self._concurrency - len(self._generating)
            )
            if leases:
                self._begin(leases, tasks)
            elif self._engine.version == asked_with:
                await self._newer_weights()
            self._note_places()

    async def _newer_weights(self) -> None:
        """Wait for weights that are on their way, a moment where none are announced yet."""
        is_coming = self._news is not None and self._needs_weights(self._news)
        seconds = WEIGHTS_SECONDS if is_coming else ANNOUNCEMENT_SECONDS
        await wait_at_most(self._has_loaded, seconds)

    # consumes: announcements   unblocks: _follow_policy
    async def _watch(self) -> None:
        async for news in self._client.announcements():
            if news.finished:
                raise RunEnded(Ending(reason=news.reason))
            if news.epoch != self._epoch:
                self._abort_all()
            if self._fetching and self._news and news.epoch != self._news.epoch:
                # The trainer of the epoch before is gone, and with it what we wait for.
                self._fetching.cancel()
            self._news = news
            self._has_news.set()
            if self._inference:
                self._inference.meet(news.inference_endpoints)

    # consumes: the newest announcement   waits for: the trainer's weights
    async def _follow_policy(self) -> None:
        while True:
            await self._has_news.wait()
            self._has_news.clear()
            news = self._news
            if news is None:
                continue
            if self._needs_weights(news):
                snapshot = await self._fetched(news)
                if snapshot is None:
                    continue
                await self._load(snapshot)
            self._epoch = news.epoch
            self._has_joined_epoch.set()

    def _needs_weights(self, news: Announcement) -> bool:
        if news.epoch != self._epoch:
            # Version 0 is the model's own files, in every epoch.
            return not news.version == self._engine.version == 0
        # The trainer publishes before it commits: we may be ahead of what is announced.
        return news.version > self._engine.version

    async def _fetched(self, news: Announcement) -> Snapshot | None:
        """Return the trainer's weights; None where another epoch begins before they are here."""
        is_same_epoch = news.epoch == self._epoch
        self._observer.begin_weight_sync()
        self._fetching = asyncio.ensure_future(
            self._weights.fetch(news, have_version=self._engine.version if is_same_epoch else -1)
        )
        try:
            return await self._fetching
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task and task.cancelling():
                self._fetching.cancel()
                raise
            return None
        finally:
            self._fetching = None

    async def _load(self, snapshot: Snapshot) -> None:
        with FaultPoints(before=Point.WEIGHTS_FETCHED, after=Point.WEIGHTS_LOADED):
            paused_seconds = await self._engine.update_weights(
                snapshot.data, version=snapshot.version
            )
        self._has_loaded.set()
        self._observer.loaded(snapshot, paused_seconds=paused_seconds)

    async def _keep_reporting(self) -> None:
        while True:
            for task, identity in tuple(self._generating.items()):
                if not self._client.wants(identity):
                    task.cancel()
            self._report()
            await asyncio.sleep(REPORT_SECONDS)

    @FaultPoints(before=Point.LEASE_RECEIVED)
    def _begin(self, leases: tuple[PromptLease, ...], tasks: asyncio.TaskGroup) -> None:
        for lease in leases:
            for identity in lease.ids if lease.epoch == self._epoch else ():
                task = tasks.create_task(self._answer(lease, identity))
                self._generating[task] = identity
                # A task that is cancelled before its first step runs none of its own code.
                task.add_done_callback(self._leave_place)

    async def _answer(self, lease: PromptLease, identity: TrajectoryId) -> None:
        with active(self._tracer.under(lease.traceparent_of(identity.member))):
            sampled = await self._responder.sample(lease, identity)
            self._leave_place(asyncio.current_task())
            if not self._client.wants(identity):
                return
            scored = await self._responder.score(sampled, lease)
            if scored is not None:
                await self._responder.deliver(scored)

    def _abort_all(self) -> None:
        """Drop what an epoch that is over has asked for."""
        for task in tuple(self._generating):
            task.cancel()

    def _leave_place(self, task: "asyncio.Task[None] | None") -> None:
        self._generating.pop(task, None)  # type: ignore[arg-type]  # None is no key
        self._note_places()

    def _note_places(self) -> None:
        if len(self._generating) < self._concurrency:
            self._has_place.set()
        else:
            self._has_place.clear()
        self._observer.generates(is_busy=bool(self._generating))

    def _report(self) -> None:
        self._note_places()
        status = self._observer.status(
            version=self._engine.version,
            running=len(self._generating),
            generated_tokens=self._engine.generated_tokens,
        )
        self._client.report(status)
