"""One response of a rollout worker: sampled by the engine, scored, and delivered.

    lease ─▶ engine ─▶ verifier, inference workers ─▶ coordinator

``loop`` gets the leases, and changes the engine's weights meanwhile.
"""

import asyncio
import json
import time
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from hetrl_core.launch import Launch
from hetrl_core.task import Task
from hetrl_runtime.data.left_out import LeftOutReason
from hetrl_runtime.metrics.rollout import RolloutMetrics
from hetrl_runtime.process.faults import FaultPoints, Point
from hetrl_runtime.reward.length import length_penalty
from hetrl_runtime.reward.scorer import Scorer
from hetrl_runtime.reward.verdict import Response, Score, Unjudged, UnjudgedReason
from hetrl_runtime.rollout.engine import Generation, GenerationRequest, InferenceEngine
from hetrl_runtime.rollout.errors import UnknownTokenError
from hetrl_runtime.rollout.multi_turn import last_turn, respond
from hetrl_runtime.rollout.observer import RolloutObserver
from hetrl_runtime.rollout.prompts import PromptFormat, PromptTooLong
from hetrl_runtime.rollout.response_trace import ResponseTrace
from hetrl_runtime.tracing.current import current_span, traced
from hetrl_runtime.tracing.span import NO_TRACER, Tracer
from hetrl_runtime.transport.clients.coordinator_client import WorkerClient
from hetrl_runtime.transport.clients.inference_client import InferenceClient
from hetrl_runtime.transport.weights.relay import WeightSource
from hetrl_runtime.wire.trajectory import (
    FailedTrajectory,
    LogProbs,
    SampledTrajectory,
    TrajectoryId,
)
from hetrl_runtime.wire.values import PromptLease

_LEFT_OUT = {
    UnjudgedReason.REFERENCE_UNREADABLE: LeftOutReason.REFERENCE_UNREADABLE,
    UnjudgedReason.SOURCE_UNKNOWN: LeftOutReason.SOURCE_UNKNOWN,
}
"""Reasons of a prompt's row, which no response to it can change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """The open parts of a worker; its set-up closes them."""

    engine: InferenceEngine
    prompts: PromptFormat
    scorer: Scorer

    client: WorkerClient
    weights: WeightSource
    metrics: RolloutMetrics
    inference: InferenceClient | None = None
    """None: no inference worker is asked anything."""

    tracer: Tracer = NO_TRACER


class Responder:
    """The steps from a leased prompt to a delivered trajectory."""

    def __init__(
        self, launch: Launch, *, process: str, equipment: Equipment, observer: RolloutObserver
    ) -> None:
        self._launch = launch
        self._process = process
        self._engine = equipment.engine
        self._prompts = equipment.prompts
        self._scorer = equipment.scorer
        self._client = equipment.client
        self._inference = equipment.inference
        self._observer = observer
        self._model = launch.model.source.rstrip("/").rpartition("/")[2]
        self._asks_reference = Task.REFERENCE_INFERENCE in launch.inference_tasks
        # A trajectory whose lease ran out may be leased to us again while we still generate it.
        self._request_numbers = count()

    async def sample(
        self, lease: PromptLease, identity: TrajectoryId
    ) -> SampledTrajectory | FailedTrajectory:
        """Sample a response to a leased prompt, or return why there is none."""
        with FaultPoints(after=Point.RESPONSE_SAMPLED):
            return await self._sample(lease, identity)

    async def _sample(
        self, lease: PromptLease, identity: TrajectoryId
    ) -> SampledTrajectory | FailedTrajectory:
        started = time.monotonic()
        data = self._launch.data
        prompt = self._prompts.encode(
            lease.question,
            max_prompt_tokens=data.max_prompt_tokens,
            messages=json.loads(lease.messages or "[]"),
        )
        if isinstance(prompt, PromptTooLong):
            return self._failure(lease, identity, str(prompt), LeftOutReason.PROMPT_TOO_LONG)
        request = GenerationRequest(
            id=f"{lease.epoch}/{identity}/{next(self._request_numbers)}",
            prompt_tokens=prompt,
            max_tokens=data.max_response_tokens,
            temperature=self._launch.algorithm.temperature,
        )
        try:
            generation = await self._generate(request)
        except UnknownTokenError as error:
            said = self._prompts.no_row(error.token, num_rows=error.num_rows)
            return self._failure(lease, identity, said, LeftOutReason.TOKEN_UNKNOWN)
        except ValueError as error:
            return self._failure(lease, identity, str(error))
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
            traceparent=current_span().traceparent,
        )
        self._observer.sampled(sampled)
        return sampled

    def _failure(
        self, lease: PromptLease, identity: TrajectoryId, error: str, left_out: str = ""
    ) -> FailedTrajectory:
        return FailedTrajectory(
            group=identity.group,
            member=identity.member,
            epoch=lease.epoch,
            process=self._process,
            error=error,
            left_out=left_out,
        )

    async def _generate(self, request: GenerationRequest) -> Generation:
        with traced("generate") as span:
            span.note({"hetrl.rollout": self._process})
            trace = ResponseTrace(span=span, model=self._model)
            return await respond(self._engine, request, self._prompts.calls, trace)

    async def score(
        self, sampled: SampledTrajectory | FailedTrajectory, lease: PromptLease
    ) -> SampledTrajectory | FailedTrajectory | None:
        """Return a response with its reward and the reference's log-probabilities.

        A failure is returned as it is, and a response without a reward is one: 0 would say that it
        is bad. None: the response is not wanted any more.
        """
        if isinstance(sampled, FailedTrajectory):
            return sampled
        score, log_probs = await asyncio.gather(
            self._score(sampled, lease), self._reference_log_probs(sampled)
        )
        if isinstance(score, Unjudged):
            self._observer.unjudged(score.reason)
            return _failed(sampled, score)
        if score is None or (log_probs is None and self._asks_reference):
            return None
        return replace(
            sampled,
            reward=score.reward,
            reward_parts=score.parts,
            reference_log_probs=log_probs,
        )

    async def _reference_log_probs(self, sampled: SampledTrajectory) -> LogProbs | None:
        """Return the reference's log-probabilities, where inference workers have the reference."""
        if not self._asks_reference:
            return None
        assert self._inference
        with traced("reference"):
            return await self._inference.reference_log_probs(
                sampled, is_wanted=lambda: self._client.wants(sampled.id)
            )

    async def _score(
        self, sampled: SampledTrajectory, lease: PromptLease
    ) -> Score | Unjudged | None:
        data = self._launch.data
        with traced("reward") as span:
            span.note({"hetrl.verifier": ",".join(each.reward for each in data.parts)})
            score = await self._judged(sampled, lease)
            if not isinstance(score, Score):
                return score
            if data.length_penalty:
                lost = length_penalty(
                    sampled.num_response_tokens,
                    max_tokens=data.max_response_tokens,
                    penalty=data.length_penalty,
                )
                score = replace(score, reward=score.reward - lost)
            span.note({"hetrl.reward": score.reward})
        return score

    async def _judged(
        self, sampled: SampledTrajectory, lease: PromptLease
    ) -> Score | Unjudged | None:
        """Return the score of the last turn, by verifiers and the reward model."""
        final = last_turn(sampled.response_tokens.tolist(), sampled.token_versions.tolist())
        text = self._prompts.decode(final)
        response = Response(
            text=text,
            reference=lease.answer,
            prompt=lease.question,
            columns=json.loads(lease.columns or "{}"),
        )

        async def ask_model() -> float | None:
            assert self._inference, "a job with a reward model has inference workers"
            return await self._inference.reward(
                sampled.question, text, is_wanted=lambda: self._client.wants(sampled.id)
            )

        return await self._scorer.score(response, ask_model=ask_model)

    async def deliver(self, trajectory: SampledTrajectory | FailedTrajectory) -> None:
        """Deliver a trajectory; return once the coordinator has acknowledged it."""
        with (
            FaultPoints(before=Point.RESPONSE_SCORED, after=Point.RESPONSE_ACKNOWLEDGED),
            traced("deliver") as span,
        ):
            outcome = await self._client.deliver(trajectory)
            span.note({"hetrl.outcome": str(outcome)})


def _failed(sampled: SampledTrajectory, verdict: Unjudged) -> FailedTrajectory:
    return FailedTrajectory(
        group=sampled.group,
        member=sampled.member,
        epoch=sampled.epoch,
        process=sampled.process,
        error=f"the reward was not judged: {verdict}",
        unjudged=verdict.reason,
        left_out=_LEFT_OUT.get(verdict.reason, ""),
    )
