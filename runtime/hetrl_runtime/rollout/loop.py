"""The rollout worker's loop: lease, generate, score, deliver, and follow the policy.

    announcements ─▶ fetch weights ─▶ engine ◀── prompts ◀── leases
                                        └─▶ responses ─▶ verifier, inference workers ─▶ coordinator

The coordinator decides which leases it grants and which trajectories it accepts; the engine
generates tokens.
"""

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from hetrl_core.launch import Launch
from hetrl_core.task import Task
from hetrl_runtime.metrics.rollout import RolloutMetrics
from hetrl_runtime.process.activity import Activity
from hetrl_runtime.process.faults import Point, passing
from hetrl_runtime.reward.confinement.code import ConfinedCode
from hetrl_runtime.reward.length import length_penalty
from hetrl_runtime.reward.scoring import VerifierPool
from hetrl_runtime.rollout.engine import GenerationRequest, InferenceEngine
from hetrl_runtime.rollout.multi_turn import last_turn, respond
from hetrl_runtime.rollout.prompts import PromptFormat, PromptTooLong
from hetrl_runtime.rollout.response_trace import ResponseTrace
from hetrl_runtime.rollout.status_metrics import StatusSeries
from hetrl_runtime.tracing.span import NO_TRACER, Span, Tracer
from hetrl_runtime.transport.clients.coordinator_client import WorkerClient
from hetrl_runtime.transport.clients.inference_client import InferenceClient
from hetrl_runtime.transport.errors import RunEnded, ending_of
from hetrl_runtime.transport.weights.relay import WeightSource
from hetrl_runtime.transport.weights.weights import Snapshot
from hetrl_runtime.wire.trajectory import (
    FailedTrajectory,
    LogProbs,
    SampledTrajectory,
    TrajectoryId,
)
from hetrl_runtime.wire.values import Announcement, Ending, ProcessStatus, PromptLease

log = logging.getLogger(__name__)

REPORT_SECONDS = 0.5

WEIGHTS_SECONDS = 1.0
"""How long weights on their way are waited for before the coordinator is asked once more."""

ANNOUNCEMENT_SECONDS = 0.01
"""Wait after an empty lease reply, until the coordinator has announced the newer weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """The equipment of a worker, each part opened and closed by the command."""

    engine: InferenceEngine
    prompts: PromptFormat
    scorer: VerifierPool | ConfinedCode | None
    """None: a reward model does, which ``inference`` is asked for."""

    client: WorkerClient
    weights: WeightSource
    metrics: RolloutMetrics
    inference: InferenceClient | None = None
    """None: no inference worker is asked anything."""

    tracer: Tracer = NO_TRACER


class RolloutLoop:
    """One worker's run, from its registration to the end of the job."""

    def __init__(self, launch: Launch, *, process: str, equipment: Equipment) -> None:
        self._launch = launch
        self._process = process
        self._engine = equipment.engine
        self._prompts = equipment.prompts
        self._scorer = equipment.scorer
        self._client = equipment.client
        self._weights = equipment.weights
        self._inference = equipment.inference
        self._metrics = equipment.metrics
        self._tracer = equipment.tracer
        self._model = launch.model.source.rstrip("/").rpartition("/")[2]
        self._activity = Activity(time.monotonic())
        self._series = StatusSeries(equipment.metrics)
        self._generating: dict[asyncio.Task[None], TrajectoryId] = {}
        self._has_place = asyncio.Event()
        self._has_place.set()
        self._epoch = equipment.client.registration.epoch
        self._has_joined_epoch = asyncio.Event()
        self._news: Announcement | None = None
        self._has_news = asyncio.Event()
        self._has_loaded = asyncio.Event()
        self._fetching: asyncio.Task[Snapshot] | None = None
        self._sync_began_at = 0.0
        self._weight_sync_seconds = 0.0
        # A trajectory whose lease ran out may be leased to us again while we still generate it.
        self._request_numbers = count()

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
                version=asked_with,
                max_trajectories=self._launch.concurrency - len(self._generating),
            )
            if leases:
                passing(Point.LEASE_RECEIVED)
            if not leases and self._engine.version == asked_with:
                await self._newer_weights()
            for lease in leases:
                if lease.epoch == self._epoch:
                    self._begin(lease, tasks)
            self._note_places()

    async def _newer_weights(self) -> None:
        """Wait for weights that are on their way, a moment where none are announced yet."""
        is_coming = self._news is not None and self._needs_weights(self._news)
        seconds = WEIGHTS_SECONDS if is_coming else ANNOUNCEMENT_SECONDS
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._has_loaded.wait()

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
        self._sync_began_at = time.monotonic()
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
        passing(Point.WEIGHTS_FETCHED)
        paused_seconds = await self._engine.update_weights(snapshot.data, version=snapshot.version)
        passing(Point.WEIGHTS_LOADED)
        self._has_loaded.set()
        self._weight_sync_seconds = time.monotonic() - self._sync_began_at
        way = {
            "link": "inter" if snapshot.crossed_regions else "intra",
            "kind": _kind(snapshot),
        }
        self._metrics.weight_sync_seconds.labels(**way).observe(self._weight_sync_seconds)
        self._metrics.weight_sync_bytes.labels(**way).inc(len(snapshot.data))
        log.info(
            "weights loaded: version=%d seconds=%.3f paused_seconds=%.3f",
            snapshot.version,
            self._weight_sync_seconds,
            paused_seconds,
        )

    async def _keep_reporting(self) -> None:
        while True:
            for task, identity in tuple(self._generating.items()):
                if not self._client.wants(identity):
                    task.cancel()
            self._report()
            await asyncio.sleep(REPORT_SECONDS)

    def _begin(self, lease: PromptLease, tasks: asyncio.TaskGroup) -> None:
        for identity in lease.ids:
            task = tasks.create_task(self._answer(lease, identity))
            self._generating[task] = identity
            # A task that is cancelled before its first step runs none of its own code.
            task.add_done_callback(self._leave_place)

    async def _answer(self, lease: PromptLease, identity: TrajectoryId) -> None:
        trace = self._tracer.under(lease.traceparent_of(identity.member))
        sampled = await self._sample(lease, identity, trace)
        passing(Point.RESPONSE_SAMPLED)
        self._leave_place(asyncio.current_task())
        if not self._client.wants(identity):
            return
        if isinstance(sampled, SampledTrajectory):
            scored = await self._score(sampled, lease.answer, trace)
            if scored is None:
                return
            sampled = scored
        passing(Point.RESPONSE_SCORED)
        with trace.child("deliver") as span:
            outcome = await self._client.deliver(sampled)
            span.note({"hetrl.outcome": str(outcome)})
        passing(Point.RESPONSE_ACKNOWLEDGED)

    async def _score(
        self, sampled: SampledTrajectory, answer: str, trace: Span
    ) -> SampledTrajectory | None:
        """Return a response with all that others say of it; None when it is not wanted any more."""
        reward, log_probs = await asyncio.gather(
            self._reward(sampled, answer, trace), self._reference_log_probs(sampled, trace)
        )
        if reward is None or (log_probs is None and self._asks_reference):
            return None
        return replace(sampled, reward=reward, reference_log_probs=log_probs)

    @property
    def _asks_reference(self) -> bool:
        return Task.REFERENCE_INFERENCE in self._launch.inference_tasks

    async def _reference_log_probs(
        self, sampled: SampledTrajectory, trace: Span
    ) -> LogProbs | None:
        """Return the reference's words, where inference workers have it."""
        if not self._asks_reference:
            return None
        assert self._inference
        with trace.child("reference"):
            return await self._inference.reference_log_probs(
                sampled, is_wanted=lambda: self._client.wants(sampled.id)
            )

    async def _reward(self, sampled: SampledTrajectory, answer: str, trace: Span) -> float | None:
        data = self._launch.data
        with trace.child("reward", {"hetrl.verifier": data.reward}) as span:
            reward = await self._judged(sampled, answer)
            if reward is None:
                return None
            if data.length_penalty:
                reward -= length_penalty(
                    sampled.num_response_tokens,
                    max_tokens=data.max_response_tokens,
                    penalty=data.length_penalty,
                )
            span.note({"hetrl.reward": reward})
        return reward

    async def _judged(self, sampled: SampledTrajectory, answer: str) -> float | None:
        """Return the reward of the last turn, by the verifier or the reward model."""
        final = last_turn(sampled.response_tokens.tolist(), sampled.token_versions.tolist())
        response = self._prompts.decode(final)
        if self._scorer:
            return await self._scorer.score(response, answer)
        assert self._inference
        return await self._inference.reward(
            sampled.question, response, is_wanted=lambda: self._client.wants(sampled.id)
        )

    async def _sample(
        self, lease: PromptLease, identity: TrajectoryId, trace: Span
    ) -> SampledTrajectory | FailedTrajectory:
        started = time.monotonic()
        data = self._launch.data
        prompt = self._prompts.encode(lease.question, max_prompt_tokens=data.max_prompt_tokens)
        if isinstance(prompt, PromptTooLong):
            return FailedTrajectory(
                group=identity.group,
                member=identity.member,
                epoch=lease.epoch,
                process=self._process,
                error=str(prompt),
            )
        request = GenerationRequest(
            id=f"{lease.epoch}/{identity}/{next(self._request_numbers)}",
            prompt_tokens=prompt,
            max_tokens=data.max_response_tokens,
            temperature=self._launch.algorithm.temperature,
        )
        with trace.child("generate", {"hetrl.rollout": self._process}) as span:
            made = ResponseTrace(span=span, model=self._model)
            generation = await respond(self._engine, request, self._prompts.calls, made)
        sampled = SampledTrajectory(
            group=identity.group,
            member=identity.member,
            epoch=lease.epoch,
            process=self._process,
            prompt_tokens=np.array(prompt, np.int32),
            response_tokens=np.array(generation.tokens, np.int32),
            behaviour_log_probs=np.array(generation.log_probs, np.float32),
            token_versions=np.array(generation.versions, np.int32),
            reward=0.0,
            finish_reason=generation.finish_reason,
            generation_seconds=time.monotonic() - started,
            response_text=self._prompts.transcript(generation.tokens),
            question=lease.question,
            answer=lease.answer,
            traceparent=trace.traceparent,
        )
        self._metrics.generation_seconds.observe(sampled.generation_seconds)
        self._metrics.interrupted.inc(sampled.oldest_version != sampled.newest_version)
        return sampled

    def _abort_all(self) -> None:
        """Drop what an epoch that is over has asked for."""
        for task in tuple(self._generating):
            task.cancel()

    def _leave_place(self, task: "asyncio.Task[None] | None") -> None:
        self._generating.pop(task, None)  # type: ignore[arg-type]  # None is no key
        self._note_places()

    def _note_places(self) -> None:
        if len(self._generating) < self._launch.concurrency:
            self._has_place.set()
        else:
            self._has_place.clear()
        self._activity.observe(is_busy=bool(self._generating), now=time.monotonic())

    def _report(self) -> None:
        self._note_places()
        status = ProcessStatus(
            version=self._engine.version,
            running=len(self._generating),
            generated_tokens=self._engine.generated_tokens,
            idle_seconds=self._activity.idle_seconds,
            busy_seconds=self._activity.busy_seconds,
            weight_sync_seconds=self._weight_sync_seconds,
        )
        self._client.report(status)
        self._series.show(status)


def _kind(snapshot: Snapshot) -> str:
    if snapshot.was_broadcast:
        return "broadcast"
    return "delta" if snapshot.is_patched else "full"
