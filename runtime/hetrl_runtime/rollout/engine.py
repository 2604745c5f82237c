"""The protocol of every inference engine, for the rollout worker and for evaluation.

``engines/`` generates tokens; ``loop`` gets prompts and delivers trajectories.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from hetrl_core.job.spec import ModelFiles
from hetrl_core.model.context import Lengths
from hetrl_runtime.rollout.errors import UnknownTokenError
from hetrl_runtime.transport.weights.regions import Bytes


class FinishReason(StrEnum):
    """The reason why a response ended: a stop token, or its limit."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """One response that is asked for. ``id`` is unique among those that are running."""

    id: str
    prompt_tokens: tuple[int, ...]
    max_tokens: int
    temperature: float = 1.0
    """0: greedy; its log-probabilities are those of temperature 1."""

    def __post_init__(self) -> None:
        if not self.prompt_tokens:
            raise ValueError(f"request {self.id}: the prompt has no tokens")
        if self.max_tokens < 1:
            raise ValueError(f"request {self.id}: max_tokens must be >= 1, got {self.max_tokens}")
        if self.temperature < 0:
            raise ValueError(f"request {self.id}: temperature must be >= 0, got {self.temperature}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Settings of an engine."""

    model: str
    """A local folder, or a hub id ``owner/name``."""

    revision: str = ""
    concurrency: int
    """Sequences that generate at once; further requests wait for a place."""

    max_sequence_tokens: int
    """Tokens of the longest prompt and response together."""

    lengths: Lengths | None = None
    """Of either, where a model's context is to be checked for them."""

    stop_tokens: tuple[int, ...]
    """Token ids that end a response; the one that did is part of it."""

    tensor_parallel: int = 1
    """GPUs over which each layer is split."""

    kv_cache_bytes: int = 0
    """On each GPU, for keys and values, where others need the rest; 0: all that is left."""

    seed: int = 0
    times_first_token: bool = False
    """Whether a generation says when its first token was there; some engines pay for that."""

    @property
    def files(self) -> ModelFiles:
        """Where the model is."""
        is_path = Path(self.model).exists() or self.model.startswith((".", "/"))
        return ModelFiles(source=self.model, is_path=is_path, revision=self.revision)

    def __post_init__(self) -> None:
        for name in ("concurrency", "max_sequence_tokens", "tensor_parallel"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be >= 1, got {getattr(self, name)}")

    def expect_room(self, request: GenerationRequest) -> None:
        """Refuse a request that is too long.

        Raises:
            ValueError: prompt and ``max_tokens`` together exceed ``max_sequence_tokens``.
        """
        total = len(request.prompt_tokens) + request.max_tokens
        if total > self.max_sequence_tokens:
            raise ValueError(
                f"request {request.id}: prompt and max_tokens are {total} tokens, "
                f"the limit is {self.max_sequence_tokens}"
            )


def expect_rows(request: GenerationRequest, *, num_rows: int) -> None:
    """Refuse a request with a token that the model's embedding does not have.

    Raises:
        UnknownTokenError: there is one.
    """
    if (token := max(request.prompt_tokens)) >= num_rows:
        raise UnknownTokenError(token, num_rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A finished response: per token its id, its log-probability and who sampled it."""

    tokens: tuple[int, ...]
    log_probs: tuple[float, ...]
    """Of the distribution sampled from, ``log_softmax(logits / temperature)`` in float32."""

    versions: tuple[int, ...]
    """The policy version whose weights sampled each token; never decreasing within a run."""

    finish_reason: FinishReason
    first_token_at: float | None = field(default=None, compare=False)
    """When it was sampled, in seconds of ``time.monotonic()``; None: not measured."""


class InferenceEngine(Protocol):
    """Generates for many requests at once, under weights that change on the way.

    At a change every running sequence is interrupted between two tokens, keeps what it has,
    and continues under the new weights: the keys and values of all its tokens so far are
    computed again, so that each later token is sampled from exactly the distribution that
    the new policy gives to the whole prefix. No forward pass sees half-changed weights.
    """

    @property
    def version(self) -> int:
        """The policy version that samples the next token."""
        ...

    @property
    def generated_tokens(self) -> int:
        """Tokens of finished responses since the start."""
        ...

    async def start(self) -> None:
        """Load the model. What is wrong with its files is a ``ValueError`` that names them."""
        ...

    async def generate(self, request: GenerationRequest) -> Generation:
        """Generate one response. Cancelling frees its place.

        Raises:
            UnknownTokenError: a token of the prompt has no row in the model's embedding.
            ValueError: prompt and ``max_tokens`` together exceed ``max_sequence_tokens``, or the
                engine cannot begin this request; others go on.
            EngineFailedError: the engine broke down; it does not come back.
        """
        ...

    async def update_weights(self, weights: Bytes, *, version: int) -> float:
        """Go on under the tensors of a safetensors file, named as the model's own files name them.

        Its bytes must stay as they are until this returns. Versions may go back, when the trainer
        came back from a checkpoint.

        Returns:
            Seconds for which generation stood still.

        Raises:
            ValueError: the tensors do not fit the model, or there are none; the old weights stay.
        """
        ...

    async def stop(self) -> None:
        """Drop what is running and free everything. Harmless when repeated."""
        ...
