"""The ``transformers`` engine: continuous batching over any Hugging Face causal LM.

Its torch loop owns the model and runs in a thread of its own, so that the event loop stays
free; commands reach it through an inbox that it empties between two forward passes, which
is also where weights change. ``slots.py`` has the batch. Meant for small
models and for machines without vLLM: keys and values are padded, not paged.
"""

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, assert_never

import torch
import transformers

from hetrl_runtime.compute import precision
from hetrl_runtime.compute.finite import objection_to_model
from hetrl_runtime.model_files.errors import ModelError
from hetrl_runtime.model_files.folder import checked_folder
from hetrl_runtime.model_files.loading import expect_tied, loading
from hetrl_runtime.rollout.engine import (
    EngineSettings,
    Generation,
    GenerationRequest,
    expect_rows,
)
from hetrl_runtime.rollout.engines.served_weights import Prepared, ServedWeights
from hetrl_runtime.rollout.engines.slots import Slots
from hetrl_runtime.rollout.engines.weight_files import check_fit, shapes_of, tensors_in
from hetrl_runtime.rollout.errors import EngineFailedError
from hetrl_runtime.transport.weights.regions import Bytes

_LOADING = Lock()
"""The library builds a model under defaults of the whole process: one at a time."""

_REQUEST_ERRORS = (IndexError, KeyError, TypeError, ValueError)
"""What a model raises for what it was asked. A device that broke down raises other errors."""


@dataclass(frozen=True, slots=True)
class _Admit:
    request: GenerationRequest
    result: "asyncio.Future[Generation]"


@dataclass(frozen=True, slots=True)
class _Drop:
    request_id: str


@dataclass(frozen=True, slots=True)
class _Swap:
    prepared: Prepared
    version: int
    paused_seconds: "asyncio.Future[float]"


@dataclass(frozen=True, slots=True)
class _Stop:
    pass


_Command = _Admit | _Drop | _Swap | _Stop


class TransformersEngine:
    """See ``InferenceEngine``. One device: CUDA where there is one, else the CPU."""

    def __init__(self, settings: EngineSettings) -> None:
        if settings.tensor_parallel != 1:
            raise ValueError(
                "the transformers engine serves on one GPU: tensor_parallel must be 1, "
                f"got {settings.tensor_parallel}"
            )
        self._settings = settings
        self.version = 0
        self.generated_tokens = 0
        self._inbox: SimpleQueue[_Command] = SimpleQueue()
        self._waiting: deque[GenerationRequest] = deque()
        self._results: dict[str, asyncio.Future[Generation]] = {}
        self._thread = Thread(target=self._run, name="transformers-engine", daemon=True)
        self._failure: BaseException | None = None

    async def start(self) -> None:
        """See ``InferenceEngine``."""
        self._loop = asyncio.get_running_loop()
        self._model = await asyncio.to_thread(_load_alone, self._settings)
        self._num_rows = self._model.get_input_embeddings().num_embeddings
        self._weights = ServedWeights(self._model)
        self._slots = Slots(self._model, self._settings)
        self._thread.start()

    async def generate(self, request: GenerationRequest) -> Generation:
        """See ``InferenceEngine``."""
        self._settings.expect_room(request)
        expect_rows(request, num_rows=self._num_rows)
        self._raise_failure()
        result: asyncio.Future[Generation] = self._loop.create_future()
        self._inbox.put(_Admit(request, result))
        try:
            return await result
        except asyncio.CancelledError:
            self._inbox.put(_Drop(request.id))
            raise

    async def update_weights(self, weights: Bytes, *, version: int) -> float:
        """See ``InferenceEngine``."""
        tensors = tensors_in(weights)
        check_fit(
            shapes_of(tensors),
            model=self._weights.shapes,
            has_tied_embeddings=self._model.config.tie_word_embeddings,
        )
        prepared = await asyncio.to_thread(self._weights.prepare, tensors)
        self._raise_failure()
        paused_seconds: asyncio.Future[float] = self._loop.create_future()
        self._inbox.put(_Swap(prepared, version, paused_seconds))
        return await paused_seconds

    async def stop(self) -> None:
        """See ``InferenceEngine``."""
        if self._thread.is_alive():
            self._inbox.put(_Stop())
            await asyncio.to_thread(self._thread.join)

    def _raise_failure(self) -> None:
        if self._failure:
            raise EngineFailedError(f"the engine broke down: {self._failure}") from self._failure

    # From here on: the engine's own thread.

    def _run(self) -> None:
        try:
            while self._obey_commands():
                self._admit_waiting()
                if len(self._slots):
                    self._deliver(self._slots.step(self.version))
        except BaseException as failure:  # callers must not wait after any error
            self._failure = failure
        self._abandon_all()

    def _obey_commands(self) -> bool:
        """Empty the inbox, waiting for a command where there is nothing else to do."""
        is_idle = not self._waiting and not len(self._slots)
        while is_idle or not self._inbox.empty():
            command = self._inbox.get()
            is_idle = False
            match command:
                case _Admit(request, result):
                    self._waiting.append(request)
                    self._results[request.id] = result
                case _Drop(request_id):
                    self._drop(request_id)
                case _Swap(prepared, version, paused_seconds):
                    seconds = self._swap(prepared, version)
                    self._loop.call_soon_threadsafe(_resolve, [(paused_seconds, seconds)])
                case _Stop():
                    return False
                case _:
                    assert_never(command)
        return True

    def _admit_waiting(self) -> None:
        num_new = min(len(self._waiting), self._slots.num_free)
        if not num_new:
            return
        requests = [self._waiting.popleft() for _ in range(num_new)]
        try:
            self._slots.admit(requests)
        except _REQUEST_ERRORS:
            for each in requests:
                self._admit_alone(each)

    def _admit_alone(self, request: GenerationRequest) -> None:
        """Admit a request, or fail it and nothing else."""
        try:
            self._slots.admit([request])
        except _REQUEST_ERRORS as error:
            refusal = ValueError(f"request {request.id} cannot begin: {error}")
            result = self._results.pop(request.id)
            self._loop.call_soon_threadsafe(_reject, [result], refusal)

    def _deliver(self, finished: list[tuple[str, Generation]]) -> None:
        if not finished:
            return
        self.generated_tokens += sum(len(generation.tokens) for _, generation in finished)
        settled = [(self._results.pop(name), generation) for name, generation in finished]
        self._loop.call_soon_threadsafe(_resolve, settled)

    def _drop(self, request_id: str) -> None:
        if self._results.pop(request_id, None) is None:
            return  # It finished while the cancellation was on its way.
        self._slots.drop(frozenset({request_id}))
        self._waiting = deque(each for each in self._waiting if each.id != request_id)

    def _swap(self, prepared: Prepared, version: int) -> float:
        started = time.monotonic()
        self._weights.exchange(prepared)
        self._slots.recompute()
        self.version = version
        return time.monotonic() - started

    def _abandon_all(self) -> None:
        """Fail every request that waits for a thread that has ended."""
        error = EngineFailedError(f"the engine broke down: {self._failure or 'it was stopped'}")
        abandoned: list[asyncio.Future[Any]] = list(self._results.values())
        while not self._inbox.empty():
            match self._inbox.get():
                case _Admit(_, result):
                    abandoned.append(result)
                case _Swap(_, _, paused_seconds):
                    abandoned.append(paused_seconds)
                case _:
                    pass
        self._loop.call_soon_threadsafe(_reject, abandoned, error)


def _resolve(settled: "list[tuple[asyncio.Future[Any], Any]]") -> None:
    for future, value in settled:
        if not future.done():
            future.set_result(value)


def _reject(futures: "list[asyncio.Future[Any]]", error: Exception) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)


def _load_alone(settings: EngineSettings) -> Any:
    with _LOADING:
        return _load(settings)


def _load(settings: EngineSettings) -> Any:
    transformers.utils.logging.disable_progress_bar()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    folder = checked_folder(settings.files, lengths=settings.lengths)
    with loading(f"model {settings.model}"):
        config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)
        hidden_size = config.get_text_config().hidden_size
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder,
            use_safetensors=True,
            trust_remote_code=False,
            dtype=precision.of_served_layers(device, hidden_size, rows=settings.concurrency),
        )
        expect_tied(model, f"model {settings.model}")
    if problem := objection_to_model(settings.model, dict(model.named_parameters())):
        raise ModelError(problem)
    return model.to(device).eval()
