"""GPUs that are simulated where the runtime touches them: an engine and a learner that take time.

All else of a run is real: coordinator, leases, streams, weights' way, bound. They take the
times that the simulator is given, so that the two can be compared.
"""

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.runtime.task import Lengths
from hetrl_runtime.rollout.engine import FinishReason, Generation, GenerationRequest
from hetrl_runtime.trainer.batch import Batch
from hetrl_runtime.transport.weights.regions import Bytes


@dataclass(slots=True)
class _Running:
    """One response on its way."""

    length: int
    result: "asyncio.Future[Generation]"
    tokens: float = 0.0
    versions: list[int] = field(default_factory=list)

    def note(self, version: int) -> None:
        """Say that all tokens so far that no version has yet are this one's."""
        self.versions += [version] * (min(self.length, int(self.tokens)) - len(self.versions))


class PacedEngine:
    """See ``InferenceEngine``: all running responses gain tokens at a pace that they share."""

    def __init__(
        self, *, token_seconds: Sequence[float], load_seconds: float, lengths: Lengths, seed: int
    ) -> None:
        """Make a replica.

        Args:
            token_seconds: at ``n - 1``, the time in which each of ``n`` gains a token.
            load_seconds: that new weights stop it for.
            lengths: of responses.
            seed: of their draw.
        """
        self._token_seconds = token_seconds
        self._load_seconds = load_seconds
        self._lengths = lengths
        self._draw = random.Random(seed)
        self._running: list[_Running] = []
        self._changed = asyncio.Event()
        self._runs = asyncio.Event()
        self._since = time.monotonic()
        self.version = 0
        self.generated_tokens = 0

    async def start(self) -> None:
        """See ``InferenceEngine``."""
        self._runs.set()
        self._task = asyncio.create_task(self._generate())

    async def generate(self, _: GenerationRequest) -> Generation:
        """See ``InferenceEngine``."""
        result: asyncio.Future[Generation] = asyncio.get_running_loop().create_future()
        mine = _Running(self._lengths.draw(self._draw), result)
        self._advance()
        self._running.append(mine)
        self._changed.set()
        return await result

    async def update_weights(self, _: Bytes, *, version: int) -> float:
        """See ``InferenceEngine``."""
        self._advance()
        self._runs.clear()
        await asyncio.sleep(self._load_seconds)
        for each in self._running:
            each.note(self.version)
        self.version = version
        self._since = time.monotonic()
        self._runs.set()
        self._changed.set()
        return self._load_seconds

    async def stop(self) -> None:
        """See ``InferenceEngine``."""
        self._task.cancel()

    async def _generate(self) -> None:
        while True:
            await self._runs.wait()
            self._advance()
            self._changed.clear()
            seconds = None
            if self._running:
                left = min(each.length - each.tokens for each in self._running)
                seconds = max(0.0, left * self._pace)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), seconds)

    @property
    def _pace(self) -> float:
        return self._token_seconds[len(self._running) - 1]

    def _advance(self) -> None:
        """Give everyone the tokens of the time since, and finish who has all."""
        now = time.monotonic()
        if not self._runs.is_set():
            self._since = now
        if self._running:
            gained = (now - self._since) / self._pace
            for each in self._running:
                each.tokens += gained
        self._since = now
        done = [each for each in self._running if each.tokens >= each.length - 1e-6]
        self._running = [each for each in self._running if each not in done]
        for each in done:
            self._finish(each)

    def _finish(self, mine: _Running) -> None:
        mine.tokens = float(mine.length)
        mine.note(self.version)
        self.generated_tokens += mine.length
        if not mine.result.done():
            mine.result.set_result(
                Generation(
                    tokens=(5,) * mine.length,
                    log_probs=(-1.0,) * mine.length,
                    versions=tuple(mine.versions),
                    finish_reason=FinishReason.STOP,
                )
            )


class PacedLearner:
    """What a trainer's loop asks of its learner; training takes time."""

    def __init__(self, *, step_seconds: float) -> None:
        self.ended_at: list[float] = []
        self._step_seconds = step_seconds

    def restore(self, _: object) -> None:
        """Start from the initial state."""

    def train(self, batch: Batch, *, version: int) -> dict[str, float]:  # noqa: ARG002
        """Take the time of a step."""
        threading.Event().wait(self._step_seconds)
        self.ended_at.append(time.monotonic())
        return {"loss": 0.0}

    def weights(self) -> bytes:
        """Return weights of hardly a size: their transfer time is simulated."""
        return b"weights"

    def state(self) -> dict[str, object]:
        """Return nothing."""
        return {}

    def save_policy(self, folder: Path, weights: bytes) -> None:
        """Write what stands for a model."""
        (folder / "model.safetensors").write_bytes(weights)
