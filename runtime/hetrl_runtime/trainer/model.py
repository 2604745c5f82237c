"""The policy: a Hugging Face causal LM, its log-probabilities, and its weights as bytes.

Parameters are float32; on a GPU, passes run in bfloat16 and activations are computed again
on the way back. What the log-probabilities are for is left to the loss.
"""

# ruff: noqa: N806, N815  # shape suffixes: B trajectories, R response positions, V vocabulary

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from hetrl_core.launch import ModelFiles
from hetrl_runtime.trainer.batch import Batch
from hetrl_runtime.trainer.loss import token_entropy

_MAX_TOKENS_PER_PASS = 16_384
_MAX_LOGIT_BYTES = 1 << 30
"""Of one pass. Log-probabilities and their gradients take a few times as much."""


class ModelError(ValueError):
    """The model cannot be loaded or does not fit; the message names it and says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenScores:
    """What the policy says of each sampled token."""

    log_probs_BR: Tensor
    entropies_BR: Tensor
    """Of the distribution that it was sampled from; without gradient."""


class Policy:
    """A causal LM in training. ``files`` says where it began."""

    def __init__(self, files: ModelFiles, *, device: torch.device, temperature: float) -> None:
        """Load the model.

        Raises:
            ModelError: it is not there, or not a causal LM that can be loaded.
        """
        self.device = device
        self.model, self._published_dtype = _load(files)
        self.model.to(device)
        self._temperature = temperature
        self._tokenizer = _tokenizer(files)
        for module in self.model.modules():
            # Else the proximal policy would differ from the current one before any step.
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        if device.type == "cuda":
            self.model.gradient_checkpointing_enable()
            self.model.train()
        else:
            self.model.eval()

    @property
    def max_tokens_per_pass(self) -> int:
        """Positions of one forward pass that memory is meant for."""
        by_logits = _MAX_LOGIT_BYTES // (4 * int(self.model.config.vocab_size))
        return max(1, min(_MAX_TOKENS_PER_PASS, by_logits))

    def scores(self, batch: Batch) -> TokenScores:
        """Return log-probability and entropy of every sampled token of a batch.

        Of ``log_softmax(logits / temperature)``, in float32, which is what was sampled from.
        Positions that are padding hold finite values without meaning.
        """
        positions_BT = (batch.is_token_BT.long().cumsum(dim=1) - 1).clamp(min=0)
        with torch.autocast("cuda", torch.bfloat16, enabled=self.device.type == "cuda"):
            output = self.model(
                input_ids=batch.tokens_BT,
                attention_mask=batch.is_token_BT.long(),
                position_ids=positions_BT,
                use_cache=False,
                # A column's logits are of the token after it.
                logits_to_keep=batch.num_response_positions + 1,
            )
        logits_BRV = output.logits[:, :-1].float() / self._temperature
        log_probs_BRV = torch.log_softmax(logits_BRV, dim=-1)
        with torch.no_grad():
            entropies_BR = token_entropy(log_probs_BRV)
        return TokenScores(
            log_probs_BR=log_probs_BRV.gather(2, batch.responses_BR[..., None]).squeeze(2),
            entropies_BR=entropies_BR,
        )

    def named_parameters(self) -> dict[str, nn.Parameter]:
        """Return the parameters under the names of the model's own files, shared ones once."""
        return dict(self.model.named_parameters())

    def to_safetensors(self) -> bytes:
        """Return all weights as a safetensors file, in the precision the model came in."""
        tensors = {
            name: parameter.detach().to("cpu", self._published_dtype).contiguous()
            for name, parameter in self.named_parameters().items()
        }
        # Hugging Face's loader refuses a file that does not say which library wrote it.
        return bytes(safetensors.torch.save(tensors, metadata={"format": "pt"}))

    def load_weights(self, tensors: Mapping[str, Tensor], *, source: str) -> None:
        """Overwrite all parameters.

        Raises:
            ModelError: the tensors are another model's; ``source`` is named.
        """
        parameters = self.named_parameters()
        if parameters.keys() != tensors.keys():
            odd = sorted(parameters.keys() ^ tensors.keys())
            raise ModelError(f"{source} is of another model: {odd[0]} is in one of them only")
        with torch.no_grad():
            for name, parameter in parameters.items():
                if parameter.shape != tensors[name].shape:
                    raise ModelError(
                        f"{source} is of another model: {name} is {tuple(tensors[name].shape)}, "
                        f"expected {tuple(parameter.shape)}"
                    )
                parameter.copy_(tensors[name])

    def save(self, folder: Path) -> None:
        """Write a Hugging Face folder that any engine loads: configuration, weights, tokenizer."""
        self.model.config.save_pretrained(folder)
        if self.model.generation_config is not None:
            self.model.generation_config.save_pretrained(folder)
        self._tokenizer.save_pretrained(folder)
        (folder / "model.safetensors").write_bytes(self.to_safetensors())


def best_device(local_gpu: int) -> torch.device:
    """Return the GPU of that number where there is one, else the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda", local_gpu % torch.cuda.device_count())
    return torch.device("cpu")


def _load(files: ModelFiles) -> tuple[Any, torch.dtype]:
    """Return the model in float32, and the precision that its files are in."""
    _expect_folder(files)
    logging.disable_progress_bar()
    revision = files.revision or None
    try:
        config = AutoConfig.from_pretrained(files.source, revision=revision)
        model = AutoModelForCausalLM.from_pretrained(
            files.source, revision=revision, dtype=torch.float32, use_safetensors=True
        )
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"model {files.source} cannot be loaded: {error}") from error
    dtype = config.dtype or torch.float32
    # It is saved with the weights, which go back to the precision that they came in.
    model.config.dtype = dtype
    return model, dtype


def _tokenizer(files: ModelFiles) -> Any:
    try:
        return AutoTokenizer.from_pretrained(files.source, revision=files.revision or None)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"tokenizer of {files.source} cannot be loaded: {error}") from error


def _expect_folder(files: ModelFiles) -> None:
    # The library would take a missing folder for a hub id, and complain of that.
    if files.is_path and not (Path(files.source) / "config.json").is_file():
        raise ModelError(f"model {files.source}: there is no {files.source}/config.json")
