"""Models in training, and the policy: a Hugging Face causal LM, and its weights as bytes.

Parameters are float32; ``precision`` chooses the precision of passes. ``parallel`` splits a model
among processes; ``losses`` use the log-probabilities. ``critic`` has the other model that a run may
train.
"""

# ruff: noqa: N806, N815  # shape suffixes: B trajectories, R response positions, V vocabulary

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from hetrl_core.job.spec import ModelFiles
from hetrl_core.model.context import Lengths
from hetrl_core.plan.training_split import UNDIVIDED
from hetrl_runtime.compute import precision
from hetrl_runtime.compute.finite import first_not_finite, objection_to_model
from hetrl_runtime.model_files.errors import ModelError
from hetrl_runtime.model_files.folder import checked_folder
from hetrl_runtime.model_files.loading import expect_tied, loading
from hetrl_runtime.trainer.batch import Batch
from hetrl_runtime.trainer.layers import cpu_layers
from hetrl_runtime.trainer.model.weight_bytes import WeightBytes
from hetrl_runtime.trainer.parallel import gradients, sharding
from hetrl_runtime.trainer.parallel.loading import stage_of, tensors_of
from hetrl_runtime.trainer.parallel.mesh import Mesh
from hetrl_runtime.trainer.parallel.passes import Pass, by_row, cut
from hetrl_runtime.trainer.parallel.pipeline import (
    Loss,
    OneStage,
    Pipeline,
    Runner,
    Scored,
    Scores,
)
from hetrl_runtime.trainer.parallel.place import Place
from hetrl_runtime.trainer.parallel.stage import Stage
from hetrl_runtime.trainer.parallel.tensors import LEADER, Exchange, Whole, local

_MAX_TOKENS_PER_PASS = {"cuda": 16_384, "cpu": 4_096}
"""As much as fills a GPU, or as stays near a CPU's caches."""

_MAX_LOGIT_BYTES = 1 << 30
"""Of one pass. Log-probabilities and their gradients take a few times as much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenScores:
    """The policy's scores of each sampled token."""

    log_probs_BR: Tensor
    entropies_BR: Tensor
    """Of the distribution that it was sampled from; without gradient."""


class TrainedModel:
    """A causal LM under some head, or this process's part of one."""

    STAGE: ClassVar[type[Stage]] = Stage

    def __init__(
        self,
        files: ModelFiles,
        *,
        device: torch.device,
        temperature: float = 1.0,
        mesh: Mesh | None = None,
        recompute: bool = False,
        lengths: Lengths | None = None,
    ) -> None:
        """Load the model, or with ``mesh`` the part of it that belongs here.

        Args:
            files: the model that it begins as.
            device: where it computes.
            temperature: at which tokens are sampled from it.
            mesh: the processes that train it together.
            recompute: compute activations again on the way back, instead of keeping them.
            lengths: of the sequences that its context is checked for.

        Raises:
            ModelError: it is not there, not a causal LM that can be loaded, not one that can be
                split this way, or not finite.
        """
        self.device = device
        self._mesh = mesh
        self._folder = folder = checked_folder(files, lengths=lengths)
        logging.disable_progress_bar()
        if mesh and not (mesh.place.is_whole and not sharding.shards(mesh)):
            config, self.stage = _load_part(
                self._folder, mesh, temperature=temperature, kind=self.STAGE
            )
            wholes = tensors_of(config, mesh, self.STAGE)
        else:
            model, config = _load(folder)
            self.STAGE.fit(model)
            self.stage = self.STAGE(model.to(device), temperature=temperature)
            wholes = {
                name: Whole(shape=tuple(parameter.shape), stage=0)
                for name, parameter in self.stage.parameters_by_file_name().items()
            }
        self._config = config
        self.place = mesh.place if mesh else Place(split=UNDIVIDED)
        self.exchange = Exchange(self.place, wholes, mesh.everyone if mesh else None)
        self._runner: Runner = (
            Pipeline(self.stage, mesh, hidden_size=config.hidden_size)
            if mesh and self.place.split.num_stages > 1
            else OneStage(self.stage, device, self.place.split.mode)
        )
        if problem := objection_to_model(files.source, self._mine, limit=self._largest):
            raise ModelError(problem)
        self._prepare(recompute=recompute)

    @property
    def model(self) -> Any:
        """The Hugging Face model, of this stage's layers."""
        return self.stage.model

    @property
    def is_in_half_precision(self) -> bool:
        """Whether its files are less precise than what is trained."""
        return self._files_dtype != torch.float32

    @property
    def is_exact(self) -> bool:
        """Whether float32 is all that it is computed in, and served in by an engine on a CPU."""
        size = self._config.hidden_size
        is_narrow = size < precision.LEAST_SERVED_SIZE
        is_whole = self.device.type == "cpu" and not precision.halves_products(self.device, size)
        return is_whole and is_narrow and not self.is_in_half_precision

    @property
    def max_tokens_per_pass(self) -> int:
        """Positions of one forward pass that memory is meant for."""
        logits = int(self._config.vocab_size) // self.place.split.tensor
        by_logits = _MAX_LOGIT_BYTES // (4 * logits)
        return max(1, min(_MAX_TOKENS_PER_PASS[self.device.type], by_logits))

    def passes(self, batch: Batch, parts: Sequence[Tensor]) -> list[Pass]:
        """Return the passes of this replica, ``parts`` being every replica's rows."""
        return cut(
            batch,
            parts,
            self.place.replica,
            split=self.place.split,
            max_tokens=self.max_tokens_per_pass,
            is_packed=self.stage.is_packed,
        )

    def _forward(self, passes: Sequence[Pass]) -> Iterator[Scored]:
        """Yield the head's output of each pass, without gradients; only on last stages.

        All of it must be taken before anything else is asked of the model.
        """
        with torch.no_grad():
            yield from self._runner.score(passes)
        sharding.reshard(self.stage)

    def _backward(self, passes: Sequence[Pass], loss: Loss) -> None:
        """Make the gradient of the sum of all passes' losses, over all replicas.

        ``loss`` is asked on last stages only.
        """
        self._runner.backward(passes, loss)
        if self._mesh:
            gradients.complete(self.stage, self._mesh)

    def gradient_norm(self) -> Tensor:
        """Return the norm of the whole model's gradient."""
        if self._mesh:
            return gradients.norm(self.stage, self._mesh)
        found = [each.grad for each in self.stage.parameters() if each.grad is not None]
        return nn.utils.get_total_norm(found)

    def first_not_finite(self) -> str:
        """Return the name of a tensor here that is not finite in the files' precision, or empty."""
        return first_not_finite(self._mine, limit=self._largest)

    @property
    def _mine(self) -> dict[str, Tensor]:
        return {name: local(each) for name, each in self.named_parameters().items()}

    @property
    def _files_dtype(self) -> torch.dtype:
        """The precision in which its weights are published and kept."""
        return torch.float32

    @property
    def _largest(self) -> float:
        return torch.finfo(self._files_dtype).max

    def named_parameters(self) -> dict[str, nn.Parameter]:
        """Return what is here under the names of the model's own files, shared ones once."""
        return self.stage.parameters_by_file_name()

    def gather(
        self, mine: Mapping[str, Tensor], dtype: torch.dtype = torch.float32
    ) -> dict[str, Tensor]:
        """Return whole tensors on the CPU; ``mine`` has the parts of this process by name.

        Every process must call it; only the leader gets the result.
        """
        return self.exchange.gather(mine, dtype, is_sharded=sharding.is_sharded(self.stage))

    def load_weights(self, tensors: Mapping[str, Tensor], *, source: str) -> None:
        """Overwrite all parameters everywhere with the leader's ``tensors``.

        Raises:
            ModelError: the tensors are another model's; ``source`` is named.
        """
        if self.place.rank == LEADER:
            self._check(tensors, source)
        self.exchange.deal_out(tensors, self.named_parameters())

    def share_with_all(self, tensor: Tensor) -> Tensor:
        """Return the leader's tensor, which is on the CPU, everywhere."""
        found = tensor.clone()
        if self._mesh:
            dist.broadcast(found, group=self._mesh.everyone, group_src=LEADER)
        return found

    def copy_from_first_replica(self) -> None:
        """Make sure that all replicas begin with the same weights."""
        if self._mesh and not sharding.is_sharded(self.stage):
            self._mesh.copy_from_first_replica(each.data for each in self.stage.parameters())

    def _check(self, tensors: Mapping[str, Tensor], source: str) -> None:
        expected = self.exchange.wholes
        if expected.keys() != tensors.keys():
            odd = sorted(expected.keys() ^ tensors.keys())
            raise ModelError(f"{source} is of another model: {odd[0]} is in one of them only")
        for name, whole in expected.items():
            if whole.shape != tensors[name].shape:
                raise ModelError(
                    f"{source} is of another model: {name} is {tuple(tensors[name].shape)}, "
                    f"expected {whole.shape}"
                )

    def _prepare(self, *, recompute: bool) -> None:
        for module in self.stage.modules():
            # Else the proximal policy would differ from the current one before any step.
            if isinstance(module, nn.Dropout):
                module.p = 0.0
            if hasattr(module, "attention_dropout"):
                vars(module)["attention_dropout"] = 0.0
        if self.device.type == "cpu":
            halves_products = precision.halves_products(self.device, self._config.hidden_size)
            cpu_layers.fit(self.model, halves_products=halves_products)
        self.stage.train(recompute)
        if recompute:
            self.model.gradient_checkpointing_enable({"use_reentrant": False})


class Policy(TrainedModel):
    """The model that is sampled from. ``files`` says where it began."""

    def __init__(
        self,
        files: ModelFiles,
        *,
        device: torch.device,
        temperature: float,
        mesh: Mesh | None = None,
        recompute: bool = False,
        lengths: Lengths | None = None,
    ) -> None:
        """Load the model, or with ``mesh`` the part of it that belongs here."""
        super().__init__(
            files,
            device=device,
            temperature=temperature,
            mesh=mesh,
            recompute=recompute,
            lengths=lengths,
        )
        with loading(f"the tokenizer of {files.source}"):
            self._tokenizer: Any = AutoTokenizer.from_pretrained(
                self._folder, trust_remote_code=False
            )
        self._bytes = WeightBytes()

    @property
    def _files_dtype(self) -> torch.dtype:
        found: torch.dtype = self._config.dtype or torch.float32
        return found

    def score(self, passes: Sequence[Pass]) -> Iterator[tuple[Pass, TokenScores]]:
        """Yield the policy's scores of each pass, without gradients; only on last stages.

        All of it must be taken before anything else is asked of the policy.
        """
        for each, scores in self._forward(passes):
            yield each, _token_scores(scores)

    def backward(self, passes: Sequence[Pass], loss: Callable[[Pass, TokenScores], Tensor]) -> None:
        """Make the gradient of the sum of all passes' losses, over all replicas.

        ``loss`` is asked on last stages only.
        """
        self._backward(passes, lambda each, scores: loss(each, _token_scores(scores)))

    def log_probs(self, batch: Batch, parts: Sequence[Tensor]) -> Tensor:
        """Return the log-probabilities ``(B, R)`` of this replica's rows; the others stay zero.

        ``parts`` are each replica's rows. All stay zero but on last stages.
        """
        scored = self.score(self.passes(batch, parts))
        return by_row(((each, scores.log_probs_BR) for each, scores in scored), batch)

    def to_safetensors(self) -> memoryview:
        """Return all weights as a safetensors file, in the precision the model came in.

        Its memory is reused when no view of it is left. Every process must call it; processes other
        than the leader get an empty file.
        """
        tensors = self.gather(
            {name: each.detach() for name, each in self.named_parameters().items()},
            self._files_dtype,
        )
        return self._bytes.of(tensors)

    def save(self, folder: Path, weights: memoryview | None = None) -> None:
        """Write a Hugging Face folder that any engine loads: configuration, weights, tokenizer.

        ``weights`` are what ``to_safetensors`` returned, if anyone asked already.
        """
        self._config.save_pretrained(folder)
        if self.model.generation_config is not None:
            self.model.generation_config.save_pretrained(folder)
        self._tokenizer.save_pretrained(folder)
        (folder / "model.safetensors").write_bytes(weights or self.to_safetensors())


def _token_scores(scores: Scores) -> TokenScores:
    log_probs_BR, entropies_BR = scores
    return TokenScores(log_probs_BR=log_probs_BR, entropies_BR=entropies_BR)


def best_device(local_gpu: int) -> torch.device:
    """Return the GPU of that number where there is one, else the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda", local_gpu % torch.cuda.device_count())
    return torch.device("cpu")


def _load(folder: Path) -> tuple[Any, Any]:
    """Return the model in float32, and its configuration, which says the files' precision."""
    with loading(f"model {folder}"):
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, use_safetensors=True, trust_remote_code=False
        )
        expect_tied(model, f"model {folder}")
    # It is saved with the weights, which go back to the precision that they came in.
    model.config.dtype = config.dtype or torch.float32
    return model, model.config


def _load_part(
    folder: Path, mesh: Mesh, *, temperature: float, kind: type[Stage]
) -> tuple[Any, Stage]:
    """Return the model's configuration, and the part of it that belongs here."""
    with loading(f"model {folder}"):
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    try:
        return config, stage_of(folder, config, mesh, temperature=temperature, kind=kind)
    except ModelError:
        raise
    except (OSError, ValueError, KeyError) as error:
        # Not what else may be raised: other processes that are gone come back.
        raise ModelError(f"model {folder} cannot be loaded: {error}") from error
