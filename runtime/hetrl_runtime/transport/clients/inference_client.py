"""A client of inference workers, whose frozen models score responses.

Any of them gives the same answer, so a response goes to the one that has least to do for us, and to
another where that fails: slow ones get less, and one that dies costs its answers under way.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from math import isfinite
from typing import Generic, Self, TypeVar

import grpc
import grpc.aio
import numpy as np

from hetrl_core.launch import Address, Launch
from hetrl_core.task import Role, Task
from hetrl_runtime.transport.channel import open_channel
from hetrl_runtime.transport.errors import Refused, Unreachable
from hetrl_runtime.transport.event_loop import wait_at_most
from hetrl_runtime.wire import codec
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.hetrl_pb2_grpc import InferenceStub
from hetrl_runtime.wire.trajectory import LogProbs, SampledTrajectory
from hetrl_runtime.wire.validation import FLOAT32, INT32, impossible_log_probs
from hetrl_runtime.wire.values import InferenceEndpoint

log = logging.getLogger(__name__)

ANSWER_SECONDS = 120.0
"""Deadline of one try, the wait for its turn included."""

REST_SECONDS = 1.0
"""How long a worker that failed is not asked again."""

_HOPELESS = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED}

Answer = TypeVar("Answer")


@dataclass(slots=True)
class _Worker:
    """One that can be asked."""

    channel: grpc.aio.Channel
    tasks: frozenset[str]
    asked_size: int = 0
    """Of questions that it has not answered yet."""

    rests_until: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question(Generic[Answer]):
    """A request to the workers that do ``task``."""

    task: Task
    size: int
    """In any unit: only for comparison with others of its task."""

    ask: Callable[[InferenceStub], Awaitable[Answer | str]]
    """Returns the answer, or what is wrong with it."""


class InferenceClient:
    """A rollout worker's side, for one event loop; leave it to close the connections."""

    def __init__(self, launch: Launch, *, process: str) -> None:
        self._launch = launch
        self._process = process
        self._job = codec.encode_job(launch.job)
        self._workers: dict[str, _Worker] = {}
        self._has_met = asyncio.Event()
        self._closing: set[asyncio.Task[None]] = set()
        self._answered_at = dict.fromkeys(Task, time.monotonic())
        self._problem = "none is announced"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for closing in tuple(self._closing):
            closing.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
        await asyncio.gather(*(each.channel.close() for each in self._workers.values()))

    def meet(self, endpoints: Iterable[InferenceEndpoint]) -> None:
        """Update the known workers; do not wait for those that are gone."""
        there = {each.address: frozenset(each.tasks) for each in endpoints}
        for address in self._workers.keys() - there.keys():
            self._part_from(self._workers.pop(address))
        for address in there.keys() - self._workers.keys():
            host, _, port = address.rpartition(":")
            place = Address(host=host, port=int(port))
            channel = open_channel(place, self._launch.tls, program=Role.INFERENCE)
            self._workers[address] = _Worker(channel, there[address])
        self._has_met.set()

    async def reference_log_probs(
        self, sampled: SampledTrajectory, *, is_wanted: Callable[[], bool]
    ) -> LogProbs | None:
        """Return the reference's log-probability of each token of a response.

        None when it is not wanted any more, which is asked before every try.

        Raises:
            Refused: no worker will ever answer this.
            Unreachable: none has answered anything for the start-up deadline.
        """
        request = pb.ReferenceRequest(
            job=self._job,
            process=self._process,
            prompt_tokens=sampled.prompt_tokens.astype(INT32).tobytes(),
            response_tokens=sampled.response_tokens.astype(INT32).tobytes(),
        )

        async def ask(stub: InferenceStub) -> LogProbs | str:
            reply = await stub.Reference(request, timeout=ANSWER_SECONDS)
            return _log_probs(reply.log_probs, sampled.num_response_tokens)

        size = sampled.prompt_tokens.size + sampled.num_response_tokens
        question = _Question(task=Task.REFERENCE_INFERENCE, size=size, ask=ask)
        return await self._answer(question, is_wanted)

    async def reward(
        self, question: str, response: str, *, is_wanted: Callable[[], bool]
    ) -> float | None:
        """Return how good the reward model finds a response.

        None, and errors, as of ``reference_log_probs``.
        """
        request = pb.RewardRequest(
            job=self._job, process=self._process, question=question, response=response
        )

        async def ask(stub: InferenceStub) -> float | str:
            reply = await stub.Reward(request, timeout=ANSWER_SECONDS)
            found = float(reply.reward)
            return found if isfinite(found) else f"reward is {found}"

        asked = _Question(task=Task.REWARD_INFERENCE, size=len(question) + len(response), ask=ask)
        return await self._answer(asked, is_wanted)

    async def _answer(
        self, question: _Question[Answer], is_wanted: Callable[[], bool]
    ) -> Answer | None:
        asked_at = time.monotonic()
        while is_wanted():
            self._give_up_if_gone(question.task, asked_at=asked_at)
            address = self._next(question.task)
            if not address:
                await self._until_a_worker_may_be_asked()
                continue
            found = await self._ask(address, question)
            if not isinstance(found, _Unanswered):
                self._answered_at[question.task] = time.monotonic()
                return found
        return None

    def _next(self, task: Task) -> str:
        """Return the worker with the fewest of our requests; empty if none may be asked now."""
        now = time.monotonic()
        awake = [
            address
            for address, each in self._workers.items()
            if task in each.tasks and each.rests_until <= now
        ]
        return min(awake, key=lambda address: self._workers[address].asked_size, default="")

    async def _ask(self, address: str, question: _Question[Answer]) -> "Answer | _Unanswered":
        worker = self._workers[address]
        worker.asked_size += question.size
        try:
            found = await question.ask(InferenceStub(worker.channel))
        except grpc.aio.AioRpcError as error:
            if error.code() in _HOPELESS:
                raise Refused(f"{address}: {error.details()}") from error
            found = f"{error.code().name}: {error.details()}"
        finally:
            worker.asked_size -= question.size
        if not isinstance(found, str):
            return found
        self._problem = f"{address}: {found}"
        log.warning("inference worker did not answer: %s", self._problem)
        worker.rests_until = time.monotonic() + REST_SECONDS
        return _Unanswered()

    def _part_from(self, worker: _Worker) -> None:
        # It may yet answer; and a call whose channel is closed at once looks as if its task had
        # been cancelled.
        closing = asyncio.ensure_future(worker.channel.close(grace=2 * ANSWER_SECONDS))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _give_up_if_gone(self, task: Task, *, asked_at: float) -> None:
        timeout_seconds = self._launch.startup_deadline_seconds
        silent_seconds = time.monotonic() - max(asked_at, self._answered_at[task])
        if silent_seconds > timeout_seconds:
            raise Unreachable(
                f"no inference worker has answered for {timeout_seconds:g} s; the last problem: "
                f"{self._problem}"
            )

    async def _until_a_worker_may_be_asked(self) -> None:
        """Wait for news, or for the first who rests, and at most a rest's time."""
        self._has_met.clear()
        await wait_at_most(self._has_met, REST_SECONDS)


class _Unanswered:
    """A signal to ask another worker."""


def _log_probs(data: bytes, num_response_tokens: int) -> LogProbs | str:
    """Return the numbers, or why they cannot be what they should be."""
    expected = FLOAT32.itemsize * num_response_tokens
    if len(data) != expected:
        return f"{len(data)} bytes of log-probabilities, expected {expected}"
    return impossible_log_probs("log_probs", data) or np.frombuffer(data, FLOAT32)
