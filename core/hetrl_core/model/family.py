"""Model families: which tensors a layer has, and what ``config.json`` may leave out.

A family is listed when trainer and engines compute it as transformers does, in every split; the
tests of ``tests/runtime/families`` show that.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

Shape = tuple[int, ...]

MAX_LAYERS = 1000

_QKV = ("q_proj", "k_proj", "v_proj")
_ATTENTION = (*_QKV, "o_proj")
_FEED_FORWARD = ("gate_proj", "up_proj", "down_proj")


class HeadNorm(Enum):
    """How queries and keys are normalised."""

    NONE = 0
    EACH_HEAD = 1
    """With the same weights for every head."""

    ALL_HEADS = 2
    """As one vector."""


class Sizes(NamedTuple):
    """Dimensions of a decoder-only transformer."""

    hidden: int
    num_layers: int
    num_query_heads: int
    num_kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    ties_embeddings: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A ``model_type`` of transformers: an embedding, alike layers, a norm and a head."""

    norms: tuple[str, ...] = ("input_layernorm", "post_attention_layernorm")
    """Of one layer, as wide as the residual stream."""

    head_norm: HeadNorm = HeadNorm.NONE
    biased: tuple[str, ...] = ()
    """Linear layers that always have a bias."""

    biased_where: Mapping[str, tuple[str, ...]]
    """Those that have one where a field of ``config.json`` is true."""

    fuses: bool = False
    """Whether gate and up are one matrix."""

    fuses_attention: bool = False
    """Whether q, k and v are one matrix."""

    head_dim: int | None = None
    """Where ``config.json`` has none; None: the hidden size over the heads."""

    ties_embeddings: bool = False
    """Where ``config.json`` does not say."""

    attention_bias: bool = False
    """The same."""

    def layer_tensors(self, config: Mapping[str, Any], sizes: Sizes) -> Iterator[tuple[str, Shape]]:
        """Yield names, without the layer's, and shapes of one layer's tensors."""
        biased = {*self.biased}
        for field, names in self.biased_where.items():
            if config.get(field, self.attention_bias if field == "attention_bias" else False):
                biased.update(names)
        for name, shape in self._matrices(sizes):
            yield f"{name}.weight", shape
            if name.rpartition(".")[2] in biased:
                yield f"{name}.bias", shape[:1]
        for name, width in self._head_norms(sizes):
            yield f"self_attn.{name}.weight", (width,)
        for name in self.norms:
            yield f"{name}.weight", (sizes.hidden,)

    def tensors(self, config: Mapping[str, Any], sizes: Sizes) -> dict[str, Shape]:
        """Return the names and shapes of all tensors, the tied matrix once."""
        found: dict[str, Shape] = {"model.embed_tokens.weight": (sizes.vocab, sizes.hidden)}
        layer = list(self.layer_tensors(config, sizes))
        for number in range(sizes.num_layers):
            found |= {f"model.layers.{number}.{name}": shape for name, shape in layer}
        found["model.norm.weight"] = (sizes.hidden,)
        if not sizes.ties_embeddings:
            found["lm_head.weight"] = (sizes.vocab, sizes.hidden)
        return found

    def _matrices(self, sizes: Sizes) -> Iterator[tuple[str, Shape]]:
        queries = sizes.num_query_heads * sizes.head_dim
        keys = sizes.num_kv_heads * sizes.head_dim
        if self.fuses_attention:
            yield "self_attn.qkv_proj", (queries + 2 * keys, sizes.hidden)
        else:
            for name, width in zip(_QKV, (queries, keys, keys), strict=True):
                yield f"self_attn.{name}", (width, sizes.hidden)
        yield "self_attn.o_proj", (sizes.hidden, queries)
        if self.fuses:
            yield "mlp.gate_up_proj", (2 * sizes.ffn, sizes.hidden)
        else:
            yield "mlp.gate_proj", (sizes.ffn, sizes.hidden)
            yield "mlp.up_proj", (sizes.ffn, sizes.hidden)
        yield "mlp.down_proj", (sizes.hidden, sizes.ffn)

    def _head_norms(self, sizes: Sizes) -> Iterator[tuple[str, int]]:
        match self.head_norm:
            case HeadNorm.EACH_HEAD:
                yield from (("q_norm", sizes.head_dim), ("k_norm", sizes.head_dim))
            case HeadNorm.ALL_HEADS:
                yield "q_norm", sizes.num_query_heads * sizes.head_dim
                yield "k_norm", sizes.num_kv_heads * sizes.head_dim


_FOUR_NORMS = (
    "input_layernorm",
    "post_attention_layernorm",
    "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
)
_BY_ATTENTION = {"attention_bias": _ATTENTION}
_BY_BOTH = {**_BY_ATTENTION, "mlp_bias": _FEED_FORWARD}

FAMILIES: Mapping[str, Family] = {
    "llama": Family(biased_where=_BY_BOTH),
    "qwen2": Family(biased=_QKV, biased_where={}),
    "qwen3": Family(biased_where=_BY_ATTENTION, head_norm=HeadNorm.EACH_HEAD, head_dim=128),
    "mistral": Family(biased_where={}),
    "phi3": Family(biased_where={}, fuses=True, fuses_attention=True),
    "gemma2": Family(
        norms=_FOUR_NORMS, biased_where=_BY_ATTENTION, head_dim=256, ties_embeddings=True
    ),
    "gemma3_text": Family(
        norms=_FOUR_NORMS,
        biased_where=_BY_ATTENTION,
        head_norm=HeadNorm.EACH_HEAD,
        head_dim=256,
        ties_embeddings=True,
    ),
    "olmo2": Family(
        norms=("post_attention_layernorm", "post_feedforward_layernorm"),
        biased_where=_BY_ATTENTION,
        head_norm=HeadNorm.ALL_HEADS,
    ),
    "glm4": Family(
        norms=(
            "input_layernorm",
            "post_attention_layernorm",
            "post_self_attn_layernorm",
            "post_mlp_layernorm",
        ),
        biased_where={"attention_bias": _QKV},
        attention_bias=True,
        fuses=True,
        head_dim=128,
    ),
    "granite": Family(biased_where=_BY_BOTH),
    "smollm3": Family(biased_where=_BY_BOTH, ties_embeddings=True),
}
"""By ``model_type`` in ``config.json``."""


def family_of(config: Mapping[str, Any]) -> Family:
    """Return a model's family.

    Raises:
        ValueError: it is of another; those that there are, are named.
    """
    name = config.get("model_type", "")
    if not isinstance(name, str) or name not in FAMILIES:
        *others, last = sorted(FAMILIES)
        raise ValueError(f"model_type must be {', '.join(others)} or {last}, got {name!r}")
    return FAMILIES[name]


def sizes_of(config: Mapping[str, Any], family: Family) -> Sizes:
    """Read the dimensions.

    Raises:
        ValueError: one is missing, or there are more layers than any model has.
    """
    if (layers := _int(config, "num_hidden_layers")) > MAX_LAYERS:
        raise ValueError(f"num_hidden_layers must be <= {MAX_LAYERS}, got {layers}")
    hidden, heads = _int(config, "hidden_size"), _int(config, "num_attention_heads")
    head_dim = family.head_dim or hidden // max(1, heads)
    ties = config.get("tie_word_embeddings")
    return Sizes(
        hidden=hidden,
        num_layers=layers,
        num_query_heads=heads,
        num_kv_heads=_int(config, "num_key_value_heads", otherwise=heads),
        head_dim=_int(config, "head_dim", otherwise=head_dim),
        ffn=_int(config, "intermediate_size"),
        vocab=_int(config, "vocab_size"),
        ties_embeddings=family.ties_embeddings if ties is None else bool(ties),
    )


def _int(config: Mapping[str, Any], name: str, *, otherwise: int | None = None) -> int:
    value = config.get(name)
    if value is None and otherwise is not None:
        return otherwise
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"config.json has no whole number {name!r}, got {value!r}")  # noqa: TRY004
    return value
