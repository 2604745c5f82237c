"""`spec.model`: which model is trained, and what it looks like."""

from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from hetrl_api.job.source import SOURCE_MEMBERS, ObjectName, Source
from hetrl_api.validation.rules import ApiModel, Rule, exactly_one, not_yet

Dimension = Annotated[int, Field(ge=1, le=10_000_000)]


class Architecture(ApiModel):
    """Dimensions of a dense Llama-like model; only planning reads them."""

    hidden_size: Dimension
    """Width of the residual stream."""

    layers: Annotated[int, Field(ge=1, le=1000)]
    """Transformer layers."""

    query_heads: Annotated[int, Field(ge=1, le=1024)]
    """Attention heads."""

    kv_heads: Annotated[int, Field(ge=1, le=1024)]
    """Key-value heads; queryHeads is a multiple of it."""

    head_dim: Annotated[int, Field(ge=1, le=4096)]
    """Width of one head."""

    ffn_size: Dimension
    """Width of the feed-forward layer."""

    vocab_size: Dimension
    """Tokens of the vocabulary."""

    tied_embeddings: bool = False
    """Input and output embeddings are one matrix."""

    attention_bias: bool = False
    """q, k and v have biases, as in Qwen2."""

    query_key_norm: bool = False
    """Queries and keys are normalised in each head, as in Qwen3."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            condition="self.queryHeads % self.kvHeads == 0",
            message=("spec.model.architecture.queryHeads ({}) must be a multiple of kvHeads ({})"),
            values=("self.queryHeads", "self.kvHeads"),
            field=".queryHeads",
        ),
    )


class SecretRef(ApiModel):
    """A Secret of the job's namespace."""

    name: ObjectName
    """The Secret."""


class Model(ApiModel):
    """The policy that is trained."""

    source: Source
    """A folder in Hugging Face format (config.json, safetensors, tokenizer), or a hub id."""

    revision: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    """Branch, tag or commit of the hub model."""

    secret_ref: SecretRef | None = None
    """Access token for the source. Not supported yet."""

    architecture: Architecture | None = None
    """Dimensions for planning; unset: read from config.json, and before that those of a well-known
    hub id (docs/known-models.md)."""

    rules: ClassVar[tuple[Rule, ...]] = (
        exactly_one("spec.model.source", SOURCE_MEMBERS, of="self.source"),
        not_yet("spec.model.source.uri", path="self.source.uri", instead="use path, hub or claim"),
        not_yet(
            "spec.model.secretRef",
            path="self.secretRef",
            instead="set HF_TOKEN from a Secret in spec.runtime.podTemplate.env",
        ),
        Rule(
            condition="!has(self.revision) || has(self.source.hub)",
            message="spec.model.revision needs spec.model.source.hub",
            field=".revision",
        ),
    )
