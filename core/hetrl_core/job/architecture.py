"""The dimensions of a decoder-only transformer, and the sizes that follow from them.

Read from a Hugging Face ``config.json`` or given in the job. The planner's cost model turns sizes
into seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hetrl_core.limits import at_least


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelArchitecture:
    """Dimensions of a dense Llama-like model (Llama, Qwen2, Qwen2.5, Qwen3)."""

    hidden_size: int
    num_layers: int
    num_query_heads: int
    num_kv_heads: int
    head_dim: int
    ffn_size: int
    vocab_size: int
    tied_embeddings: bool
    attention_bias: bool = False
    """Whether q, k and v have biases, as in Qwen2 and Qwen2.5."""

    query_key_norm: bool = False
    """Whether each head's queries and keys are normalised, as in Qwen3."""

    def __post_init__(self) -> None:
        for name in (
            "hidden_size",
            "num_layers",
            "num_query_heads",
            "num_kv_heads",
            "head_dim",
            "ffn_size",
            "vocab_size",
        ):
            at_least(f"architecture.{name}", getattr(self, name), 1)
        if self.num_query_heads % self.num_kv_heads:
            raise ValueError(
                f"architecture.num_query_heads ({self.num_query_heads}) must be a multiple of "
                f"num_kv_heads ({self.num_kv_heads})"
            )

    @property
    def layer_parameters(self) -> int:
        """Parameters of one transformer layer."""
        query = self.num_query_heads * self.head_dim
        key_value = 2 * self.num_kv_heads * self.head_dim
        attention = self.hidden_size * (2 * query + key_value)
        biases = (query + key_value) if self.attention_bias else 0
        norms = 2 * self.hidden_size + (2 * self.head_dim if self.query_key_norm else 0)
        return attention + biases + 3 * self.hidden_size * self.ffn_size + norms

    @property
    def embedding_parameters(self) -> int:
        """Parameters of one vocabulary matrix."""
        return self.vocab_size * self.hidden_size

    @property
    def num_parameters(self) -> int:
        """All parameters, the tied vocabulary matrix counted once."""
        matrices = 1 if self.tied_embeddings else 2
        return (
            self.num_layers * self.layer_parameters
            + matrices * self.embedding_parameters
            + self.hidden_size
        )

    def kv_bytes_per_token(self, *, bytes_per_value: int = 2) -> int:
        """Return the size of one token's keys and values over all layers."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * bytes_per_value


def from_hugging_face(config: object) -> ModelArchitecture:
    """Read the dimensions from the parsed ``config.json`` of a Hugging Face model.

    Raises:
        ValueError: it is no mapping, the model is of another family, or a dimension is missing.
    """
    if not isinstance(config, Mapping):
        raise ValueError(f"config.json must be a mapping, got {type(config).__name__}")  # noqa: TRY004
    family = str(config.get("model_type", ""))
    if family not in {"llama", "qwen2", "qwen3"}:
        raise ValueError(f"model_type must be llama, qwen2 or qwen3, got {family!r}")
    hidden_size, num_query_heads = _int(config, "hidden_size"), _int(config, "num_attention_heads")
    return ModelArchitecture(
        hidden_size=hidden_size,
        num_layers=_int(config, "num_hidden_layers"),
        num_query_heads=num_query_heads,
        num_kv_heads=_int(config, "num_key_value_heads", otherwise=num_query_heads),
        head_dim=_int(config, "head_dim", otherwise=hidden_size // max(1, num_query_heads)),
        ffn_size=_int(config, "intermediate_size"),
        vocab_size=_int(config, "vocab_size"),
        tied_embeddings=bool(config.get("tie_word_embeddings", False)),
        attention_bias=family == "qwen2",
        query_key_norm=family == "qwen3",
    )


def _int(config: Mapping[str, Any], name: str, *, otherwise: int | None = None) -> int:
    value = config.get(name)
    if value is None and otherwise is not None:
        return otherwise
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"config.json has no whole number {name!r}, got {value!r}")  # noqa: TRY004
    return value
