"""The ``vllm`` engine: vLLM's AsyncLLM, on GPUs and, with its CPU build, on CPUs.

vLLM schedules, pages keys and values, and runs its model in processes of its own; it also
stamps each output token with the label of the weights that sampled it, which is where token
versions come from. What remains here is the translation, and the order of a weight change.
"""

import asyncio
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import vllm
from vllm.platforms import current_platform
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.exceptions import EngineDeadError

from hetrl_core.job.architecture import ModelArchitecture, from_hugging_face
from hetrl_core.model.check import ModelProblems
from hetrl_core.model.vllm import vllm_obstacle
from hetrl_core.units import MIB
from hetrl_runtime.model_files.errors import ModelError
from hetrl_runtime.model_files.folder import checked_folder, files_of_weights
from hetrl_runtime.rollout.engine import (
    EngineSettings,
    FinishReason,
    Generation,
    GenerationRequest,
    expect_rows,
)
from hetrl_runtime.rollout.engines.weight_files import (
    check_fit,
    read_shapes,
    shapes_of,
    tensors_in,
)
from hetrl_runtime.rollout.errors import EngineFailedError
from hetrl_runtime.transport.weights.regions import Bytes

_HARDLY_ANY = 0.01
"""Of a GPU, which must be free: all that is asked of it where the cache's size is given."""


class VllmEngine:
    """See ``InferenceEngine``. Devices are those that vLLM finds; tensor parallel over several."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self.version = 0
        self.generated_tokens = 0
        self._llm: Any = None

    async def start(self) -> None:
        """See ``InferenceEngine``."""
        folder = checked_folder(self._settings.files, lengths=self._settings.lengths)
        self._shapes = read_shapes(*files_of_weights(folder))
        # In a thread: otherwise this process could not be stopped while it loads.
        self._llm = await asyncio.to_thread(_load, self._settings)
        config = self._llm.vllm_config.model_config.hf_config
        self._has_tied_embeddings = bool(getattr(config, "tie_word_embeddings", False))
        await self._llm.update_weight_version(str(self.version))

    async def generate(self, request: GenerationRequest) -> Generation:
        """See ``InferenceEngine``."""
        self._settings.expect_room(request)
        expect_rows(request, num_rows=self._llm.vllm_config.model_config.get_vocab_size())
        prompt = vllm.TokensPrompt(prompt_token_ids=list(request.prompt_tokens))
        try:
            async for output in self._llm.generate(prompt, self._sampling(request), request.id):
                completion, measured = output.outputs[0], output.metrics
        except EngineDeadError as error:
            raise EngineFailedError(f"the engine broke down: {error}") from error
        generation = _generation(completion, measured)
        self.generated_tokens += len(generation.tokens)
        return generation

    async def update_weights(self, weights: Bytes, *, version: int) -> float:
        """See ``InferenceEngine``.

        Running requests are paused, not ended, and their keys and values dropped; vLLM
        computes those again when it resumes.
        """
        given = shapes_of(tensors_in(weights))
        check_fit(given, model=self._shapes, has_tied_embeddings=self._has_tied_embeddings)
        with TemporaryDirectory(prefix="weights-") as folder:
            # Its processes read folders.
            file = Path(folder) / "model.safetensors"
            await asyncio.to_thread(file.write_bytes, weights)
            started = time.monotonic()
            await self._llm.pause_generation(mode="keep", clear_cache=True)
            try:
                await self._llm.collective_rpc("load_version", args=(folder,))
                await self._llm.update_weight_version(str(version))
            except Exception as error:
                # What is loaded by now is neither policy: nothing may be sampled from it.
                await self.stop()
                raise EngineFailedError(f"loading version {version} failed: {error}") from error
            self.version = version
            await self._llm.resume_generation()
            return time.monotonic() - started

    async def stop(self) -> None:
        """See ``InferenceEngine``."""
        if self._llm is not None:
            llm, self._llm = self._llm, None
            await asyncio.to_thread(llm.shutdown)

    def _sampling(self, request: GenerationRequest) -> Any:
        return vllm.SamplingParams(
            max_tokens=request.max_tokens,
            temperature=request.temperature,
            # The same tokens end a response in every engine, whatever a model's own
            # generation_config.json says beside them.
            ignore_eos=True,
            stop_token_ids=list(self._settings.stop_tokens),
            logprobs=0,
            flat_logprobs=True,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )


def _load(settings: EngineSettings) -> Any:
    try:
        arguments = vllm.AsyncEngineArgs(**_arguments(settings))
        return vllm.AsyncLLMEngine.from_engine_args(arguments)
    except ModelError:
        raise
    except (ValueError, ImportError) as error:
        raise ModelError(f"model {settings.model} cannot be loaded: {error}") from error
    except RuntimeError as error:
        # Its processes did not start: others may have had the GPU's memory.
        raise EngineFailedError(f"the engine did not start: {error}") from error


def _arguments(settings: EngineSettings) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "model": settings.model,
        "skip_tokenizer_init": True,
        "max_model_len": settings.max_sequence_tokens,
        "max_num_seqs": settings.concurrency,
        "tensor_parallel_size": settings.tensor_parallel,
        "seed": settings.seed,
        # Training divides by these, so they must be of the distribution sampled from.
        "logprobs_mode": "processed_logprobs",
        "generation_config": "vllm",
        "worker_extension_cls": "hetrl_runtime.rollout.engines.vllm_worker.WeightLoading",
        # Its statistics are all that says when a first token was there.
        "disable_log_stats": not settings.times_first_token,
    }
    _expect_served(settings)
    if current_platform.is_cpu():
        _expect_no_caps(settings)
        # Compiling takes minutes of a CPU and pays off on none that small; and vLLM would
        # take most of the machine's memory unless given a size.
        arguments |= {
            "dtype": "float32",
            "enforce_eager": True,
            "kv_cache_memory_bytes": _key_value_bytes(settings),
        }
    elif settings.kv_cache_bytes:
        # It would take nine tenths of the GPU, and refuse to start where others have some.
        arguments |= {
            "kv_cache_memory_bytes": settings.kv_cache_bytes,
            "gpu_memory_utilization": _HARDLY_ANY,
        }
    return arguments


def _expect_served(settings: EngineSettings) -> None:
    """Refuse a model that vLLM cannot serve."""
    config = vllm.transformers_utils.config.get_config(settings.model, trust_remote_code=False)
    if obstacle := vllm_obstacle(config.to_dict()):
        raise ModelError(ModelProblems((obstacle,)).of(settings.model))


def _expect_no_caps(settings: EngineSettings) -> None:
    """Refuse what vLLM's attention on CPUs computes otherwise than transformers: by a nat."""
    config = vllm.transformers_utils.config.get_config(settings.model, trust_remote_code=False)
    if cap := getattr(config, "attn_logit_softcapping", None):
        raise ModelError(
            f"model {settings.model} cannot be used: config.json has attn_logit_softcapping {cap}, "
            "which vLLM computes on GPUs only; choose spec.runtime.engine transformers"
        )


def _key_value_bytes(settings: EngineSettings) -> int:
    """Return what all sequences at once need, each rounded up to a generous block."""
    config = vllm.transformers_utils.config.get_config(settings.model, trust_remote_code=False)
    architecture: ModelArchitecture = from_hugging_face(config.to_dict())
    tokens_each = settings.max_sequence_tokens + 128
    size_bytes = (
        settings.concurrency * tokens_each * architecture.kv_bytes_per_token(bytes_per_value=4)
    )
    return max(64 * MIB, size_bytes)


def _generation(completion: Any, measured: Any) -> Generation:
    match completion.finish_reason:
        case "stop" | "length":
            finish_reason = FinishReason(completion.finish_reason)
        case reason:
            raise EngineFailedError(f"the engine ended a request as {reason!r}")
    versions = [
        int(span.version)
        for span in completion.weight_versions
        for _ in range(span.start, span.end)
    ]
    return Generation(
        tokens=tuple(completion.token_ids),
        log_probs=tuple(completion.logprobs.logprobs),
        versions=tuple(versions),
        finish_reason=finish_reason,
        first_token_at=(measured.first_token_ts or None) if measured else None,
    )
