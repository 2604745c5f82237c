"""The gRPC service of an inference worker: validated requests of rollout workers.

``model_runner`` runs them through ``reference`` or ``reward_model``.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import grpc
import numpy as np
from grpc.aio import ServicerContext as Context

from hetrl_core.launch import JobIdentity
from hetrl_core.task import Task
from hetrl_runtime.inference.model_runner import ModelRunner
from hetrl_runtime.inference.reference import Response
from hetrl_runtime.inference.request_queue import AnswerT, AskedT, QueueFullError
from hetrl_runtime.inference.reward_model import Judged
from hetrl_runtime.metrics.inference import InferenceMetrics
from hetrl_runtime.transport.channel import abort
from hetrl_runtime.wire import codec
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.hetrl_pb2_grpc import InferenceServicer
from hetrl_runtime.wire.trajectory import LogProbs, Tokens
from hetrl_runtime.wire.validation import FLOAT32, INT32, MAX_TEXT_CHARS, MAX_TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedReference:
    """The reference model's runner, and its tokens: those below ``vocab_size``."""

    runner: ModelRunner[Response, LogProbs]
    vocab_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedReward:
    """The reward model's runner, and its tokenization of a question and a response."""

    runner: ModelRunner[Judged, float]
    reads: Callable[[str, str], Judged]


class InferenceService(InferenceServicer):
    """The gRPC service of one run; all calls are on one event loop."""

    def __init__(
        self,
        job: JobIdentity,
        metrics: InferenceMetrics,
        *,
        reference: AskedReference | None = None,
        reward: AskedReward | None = None,
    ) -> None:
        """Serve the models that are here; None: that one is not."""
        self._job = job
        self._metrics = metrics
        self._reference = reference
        self._reward = reward

    async def Reference(  # noqa: N802  # the name is the protocol's
        self, request: pb.ReferenceRequest, context: Context
    ) -> pb.ReferenceReply:
        """Return the reference's log-probabilities of a response."""
        await self._refuse_other_jobs(request.job, context)
        asked = self._reference
        if asked is None:
            await _not_here(context, Task.REFERENCE_INFERENCE)
        response = _response(request, vocab_size=asked.vocab_size)
        if isinstance(response, str):
            await abort(context, grpc.StatusCode.INVALID_ARGUMENT, response)
        log_probs = await self._ask(asked.runner, response, context)
        return pb.ReferenceReply(log_probs=log_probs.astype(FLOAT32).tobytes())

    async def Reward(  # noqa: N802
        self, request: pb.RewardRequest, context: Context
    ) -> pb.RewardReply:
        """Return the reward model's score of a response."""
        await self._refuse_other_jobs(request.job, context)
        asked = self._reward
        if asked is None:
            await _not_here(context, Task.REWARD_INFERENCE)
        if reason := _oversized(request):
            await abort(context, grpc.StatusCode.INVALID_ARGUMENT, reason)
        # A long text takes a while, in which others are to be answered.
        judged = await asyncio.to_thread(asked.reads, request.question, request.response)
        if not judged.num_tokens:
            reason = "question and response are empty"
            await abort(context, grpc.StatusCode.INVALID_ARGUMENT, reason)
        reward = await self._ask(asked.runner, judged, context)
        return pb.RewardReply(reward=reward)

    async def _ask(
        self, runner: ModelRunner[AskedT, AnswerT], question: AskedT, context: Context
    ) -> AnswerT:
        asked_at = time.monotonic()
        try:
            found = await runner.queue.ask(question)
        except QueueFullError as error:
            await abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
        self._metrics.seconds.observe(time.monotonic() - asked_at)
        return found

    async def _refuse_other_jobs(self, job: pb.JobIdentity, context: Context) -> None:
        asked = codec.decode_job(job)
        if asked != self._job:
            details = f"this worker is of job {self._job}, not {asked}"
            await abort(context, grpc.StatusCode.PERMISSION_DENIED, details)


def _response(request: pb.ReferenceRequest, *, vocab_size: int) -> Response | str:
    """Return the response that is asked about, or what is wrong with it."""
    prompt = _tokens("prompt_tokens", request.prompt_tokens, vocab_size=vocab_size)
    response = _tokens("response_tokens", request.response_tokens, vocab_size=vocab_size)
    if isinstance(prompt, str):
        return prompt
    if isinstance(response, str):
        return response
    return Response(prompt, response) if response.size else "response_tokens is empty"


def _tokens(name: str, data: bytes, *, vocab_size: int) -> Tokens | str:
    most = INT32.itemsize * MAX_TOKENS
    if len(data) % INT32.itemsize or len(data) > most:
        return f"{name} has {len(data)} bytes, must be a multiple of 4 up to {most}"
    tokens = np.frombuffer(data, INT32)
    if tokens.size and not 0 <= tokens.min() <= tokens.max() < vocab_size:
        return (
            f"{name} has tokens from {tokens.min()} to {tokens.max()}, must be >= 0 and "
            f"< {vocab_size}"
        )
    return tokens


def _oversized(request: pb.RewardRequest) -> str:
    for name, text in (("question", request.question), ("response", request.response)):
        if len(text) > MAX_TEXT_CHARS:
            return f"{name} has {len(text)} characters, the limit is {MAX_TEXT_CHARS}"
    return ""


async def _not_here(context: Context, task: Task) -> NoReturn:
    await abort(context, grpc.StatusCode.UNIMPLEMENTED, f"this worker does not do {task}")
