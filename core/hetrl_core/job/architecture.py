"""The dimensions of a decoder-only transformer, and the sizes that follow from them.

Read from a Hugging Face ``config.json`` or given in the job. The planner's cost model turns sizes
into seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hetrl_core.limits import at_least
from hetrl_core.model.family import HeadNorm, family_of, sizes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelArchitecture:
    """Dimensions of a dense Llama-like model; ``model.family`` lists those that there are."""

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

    vectors_per_layer: int | None = None
    """Parameters of a layer's norms and biases; None: as many as the two fields above tell."""

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
        return attention + 3 * self.hidden_size * self.ffn_size + self.layer_vectors

    @property
    def layer_vectors(self) -> int:
        """Parameters of one layer's norms and biases."""
        if self.vectors_per_layer is not None:
            return self.vectors_per_layer
        heads = self.num_query_heads + 2 * self.num_kv_heads
        biases = heads * self.head_dim if self.attention_bias else 0
        return 2 * self.hidden_size + biases + (2 * self.head_dim if self.query_key_norm else 0)

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
    family = family_of(config)
    sizes = sizes_of(config, family)
    found = ModelArchitecture(
        hidden_size=sizes.hidden,
        num_layers=sizes.num_layers,
        num_query_heads=sizes.num_query_heads,
        num_kv_heads=sizes.num_kv_heads,
        head_dim=sizes.head_dim,
        ffn_size=sizes.ffn,
        vocab_size=sizes.vocab,
        tied_embeddings=sizes.ties_embeddings,
        attention_bias=family.biased != (),
        query_key_norm=family.head_norm is HeadNorm.EACH_HEAD,
    )
    shapes = [shape for _, shape in family.layer_tensors(config, sizes)]
    vectors = sum(shape[0] for shape in shapes if len(shape) == 1)
    return found if vectors == found.layer_vectors else replace(found, vectors_per_layer=vectors)


_GIVEN = {
    "hiddenSize": "hidden_size",
    "layers": "num_layers",
    "queryHeads": "num_query_heads",
    "kvHeads": "num_kv_heads",
    "headDim": "head_dim",
    "ffnSize": "ffn_size",
    "vocabSize": "vocab_size",
    "tiedEmbeddings": "tied_embeddings",
}
"""Fields of ``spec.model.architecture``. A plan hardly depends on the others."""


def contradictions(
    given: ModelArchitecture,
    found: ModelArchitecture,
    *,
    given_by: str = "spec.model.architecture.",
) -> tuple[str, ...]:
    """Return where dimensions that are given are not those of a model's ``config.json``.

    Args:
        given: dimensions that the job states, or that another source has.
        found: those of ``config.json``.
        given_by: what precedes the name of a field in the messages.
    """
    return tuple(
        f"{given_by}{field} is {_written(given, name)}, and {_written(found, name)} by config.json"
        for field, name in _GIVEN.items()
        if getattr(given, name) != getattr(found, name)
    )


def _written(architecture: ModelArchitecture, name: str) -> str:
    # As YAML has truths.
    return str(getattr(architecture, name)).lower()
