"""A pipeline stage: some layers of a Hugging Face causal LM, computed by its own code.

A stage is a model of fewer layers that takes hidden states where the whole one takes tokens,
and gives them on where the whole one scores tokens; a whole model is the only stage of its
kind. ``pipeline`` schedules stages; ``losses`` use the scores.
"""

# ruff: noqa: N803, N806  # shapes: B trajectories, T positions, R response positions

import copy
from collections.abc import Iterator
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from hetrl_runtime.compute import precision
from hetrl_runtime.trainer.layers import packing
from hetrl_runtime.trainer.layers.head import after_head
from hetrl_runtime.trainer.layers.packing import Pack
from hetrl_runtime.trainer.losses.policy_loss import token_entropy
from hetrl_runtime.trainer.parallel.tensors import local
from hetrl_runtime.trainer.parallel.vocabulary import VocabularyShard

_BY_LAYER = ("layer_types", "no_rope_layers")
"""Fields of configurations that have a value for each layer."""


class Stage(nn.Module):
    """The layers of one place, with the embedding or the head where these are at home."""

    SCORES_TOKENS: ClassVar[bool] = True
    """Whether its head is one of the model's files, with an output for every token."""

    HEAD: ClassVar[str] = "lm_head.weight"
    """Its name in files."""

    NUM_SCORES: ClassVar[int] = 2
    """Tensors that the last stage returns."""

    def __init__(
        self,
        model: Any,
        *,
        first_layer: int = 0,
        is_first: bool = True,
        is_last: bool = True,
        ties_ends: bool = False,
        temperature: float,
        partial: frozenset[str] = frozenset(),
        whole_config: Any = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.shard: VocabularyShard | None = None
        """Where the head is cut by tokens."""

        self._ties = ties_ends
        self._partial = partial
        self._first_layer = first_layer
        self._is_first = is_first
        self._is_last = is_last
        self._temperature = temperature
        self._after_head = after_head(model.config) if self.SCORES_TOKENS else None
        self.is_packed = not packing.reason_against(whole_config or model.config)
        """Whether passes are one sequence without padding, the same in all stages of a model."""

        if self.is_packed:
            model.set_attn_implementation(packing.ATTENTION)

    @classmethod
    def fit(cls, model: Any) -> None:
        """Give a whole model, or the last part of one, the head that this kind scores with."""

    def forward(
        self,
        inputs: Tensor,
        *,
        is_token_BT: Tensor,
        prompts_B: Tensor,
        responses_BR: Tensor,
        num_places: int = 0,
    ) -> Tensor | tuple[Tensor, ...]:
        """Return hidden states, or from the last stage log-probabilities and entropies ``(B, R)``.

        ``inputs`` are tokens for the first stage, else hidden states; packed, these are of one
        sequence of ``num_places`` places or more. ``prompts_B`` are the first rows with the same
        prompt, as in ``Batch``. Scores are those of
        ``log_softmax(logits / temperature)``, in float32, which is what was sampled from;
        entropies have no gradient. Where there is padding, they are finite without meaning.
        """
        if not self.is_packed:
            return self._padded(inputs, is_token_BT, responses_BR)
        pack = packing.pack(
            is_token_BT, prompts_B, num_response=responses_BR.shape[1], num_places=num_places
        )
        if self._is_first:
            inputs = inputs.flatten()[pack.tokens_N][None]
        return self._packed(inputs, responses_BR, pack)

    def _packed(
        self, inputs: Tensor, responses_BR: Tensor, pack: Pack
    ) -> Tensor | tuple[Tensor, ...]:
        with self._autocast(inputs.device):
            hidden = self._hidden(inputs, position_ids=pack.positions_N[None], pack=pack)
            if not self._is_last:
                return hidden.to(handed_on_as(inputs.device))
            products_1SV = self.model.lm_head(hidden.index_select(1, pack.scored_S))
        scores_1S = self._scores(
            self._logits(products_1SV), responses_BR.flatten()[pack.responses_S][None]
        )
        blank = torch.zeros(responses_BR.shape, device=inputs.device).flatten()
        return tuple(
            blank.scatter(0, pack.responses_S, each[0]).view_as(responses_BR) for each in scores_1S
        )

    def _padded(
        self, inputs: Tensor, is_token_BT: Tensor, responses_BR: Tensor
    ) -> Tensor | tuple[Tensor, ...]:
        with self._autocast(inputs.device):
            hidden = self._hidden(
                inputs,
                attention_mask=is_token_BT.long(),
                position_ids=(is_token_BT.long().cumsum(dim=1) - 1).clamp(min=0),
            )
            if not self._is_last:
                return hidden.to(handed_on_as(inputs.device))
            # A column's logits are of the token after it.
            products_BRV = self.model.lm_head(hidden[:, -responses_BR.shape[1] - 1 : -1])
        return self._scores(self._logits(products_BRV), responses_BR)

    def _logits(self, products: Tensor) -> Tensor:
        """Return a head's products as what is sampled from, in float32."""
        found = products.float()
        return (self._after_head(found) if self._after_head else found) / self._temperature

    def _autocast(self, device: torch.device) -> torch.autocast:
        dtype = precision.of_trained_layers(device)
        return torch.autocast(device.type, dtype, enabled=dtype != torch.float32)

    def _hidden(self, inputs: Tensor, **others: Any) -> Tensor:
        found = self.model.model(
            **{"input_ids" if self._is_first else "inputs_embeds": inputs},
            use_cache=False,
            **others,
        )
        return cast("Tensor", found.last_hidden_state)

    def _scores(self, logits_BRV: Tensor, responses_BR: Tensor) -> tuple[Tensor, ...]:
        if self.shard:
            return self.shard.scores(logits_BRV, responses_BR)
        log_probs_BRV = torch.log_softmax(logits_BRV, dim=-1)
        with torch.no_grad():
            entropies_BR = token_entropy(log_probs_BRV)
        log_probs_BR = log_probs_BRV.gather(2, responses_BR[..., None]).squeeze(2)
        # Not a view: FSDP warns of those that come out of a module.
        return log_probs_BR.clone(), entropies_BR

    def parameters_by_file_name(self) -> dict[str, nn.Parameter]:
        """Return its parameters under the names of the model's own files, shared ones once."""
        return {
            self._file_name(name): parameter for name, parameter in self.model.named_parameters()
        }

    def partial_gradients(self) -> Iterator[Tensor]:
        """Yield gradients that are divided by heads among tensor ranks."""
        for name, parameter in self.model.named_parameters():
            if name in self._partial and parameter.grad is not None:
                yield parameter.grad

    def shared_by_ends(self) -> nn.Parameter | None:
        """Return the matrix that both ends of the pipeline share, if any."""
        if self._is_first is self._is_last or not self._ties:
            return None
        found = self.model.model.embed_tokens if self._is_first else self.model.lm_head
        return cast("nn.Parameter", found.weight)

    def _file_name(self, name: str) -> str:
        if name == "lm_head.weight":
            return "model.embed_tokens.weight" if self._ties else self.HEAD
        return _renumbered(name, by=self._first_layer)

    def blocks(self) -> Iterator[nn.Module]:
        """Yield its layers."""
        yield from self.model.model.layers


def handed_on_as(device: torch.device) -> torch.dtype:
    """Return the precision of hidden states on their way to the next stage."""
    return precision.of_trained_layers(device)


def empty_model(config: Any, layers: range, *, is_first: bool, is_last: bool) -> Any:
    """Return a causal LM of some layers only, without storage (on the meta device)."""
    config = copy.deepcopy(config)
    config.num_hidden_layers = len(layers)
    for name in _BY_LAYER:
        if found := getattr(config, name, None):
            setattr(config, name, [found[layer] for layer in layers])
    if not is_first and hasattr(config, "embedding_multiplier"):
        # Granite's model multiplies whatever it is given by it, hidden states too.
        config.embedding_multiplier = 1.0
    # At either end of a longer pipeline the shared matrix is a copy of the other end's.
    config.tie_word_embeddings = config.tie_word_embeddings and is_first and is_last
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(
            config, dtype=torch.float32, trust_remote_code=False
        )
    if not is_first:
        model.model.embed_tokens = None
    if not is_last:
        model.model.norm = nn.Identity()
        model.lm_head = None
    return model


def materialise(model: Any, device: torch.device) -> None:
    """Give every parameter storage on a device, and compute what is in no file."""
    model.to_empty(device=device)
    rotary = model.model.rotary_emb
    model.model.rotary_emb = type(rotary)(config=model.config).to(device)
    for module in model.modules():
        if hasattr(module, "scalar_embed_scale"):
            # Gemma's embedding.
            local(module.embed_scale).fill_(module.scalar_embed_scale)


def _renumbered(name: str, *, by: int) -> str:
    start, _, rest = name.partition("model.layers.")
    if start or not rest:
        return name
    number, _, last = rest.partition(".")
    return f"model.layers.{int(number) + by}.{last}"
