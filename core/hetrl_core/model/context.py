"""The context of a model: how many positions it knows, and how many a job needs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_BY_LENGTH = {"dynamic", "longrope", "su"}
"""Scalings that change with the length of a sequence: an engine, which decodes token by token, and
a trainer, which computes whole sequences, agree only below the length where that begins."""

_ORIGINAL = "original_max_position_embeddings"
_STRETCHED = {"linear", "yarn"}


@dataclass(frozen=True, slots=True)
class Lengths:
    """The longest prompt and response of a job, in tokens."""

    prompt_tokens: int
    response_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Positions that a model knows, and the field that says so."""

    num_positions: int
    field: str


def context_of(config: Mapping[str, Any]) -> Context | None:
    """Return what the positions of ``config.json`` reach, scaled ones considered.

    None where it says nothing.
    """
    positions = _number(config, "max_position_embeddings")
    if not positions:
        return None
    scaling = _scaling(config)
    kind = str(scaling.get("rope_type", scaling.get("type")))
    original = _number(scaling, _ORIGINAL) or _number(config, _ORIGINAL)
    if kind in _BY_LENGTH:
        return (
            Context(num_positions=int(original), field=_ORIGINAL)
            if original
            else Context(num_positions=int(positions), field="max_position_embeddings")
        )
    if kind in _STRETCHED:
        # Written in two ways: with the positions before scaling, or with those after it.
        stretched = int((original or positions) * _number(scaling, "factor"))
        if stretched > positions:
            return Context(
                num_positions=stretched, field="max_position_embeddings times rope_scaling.factor"
            )
    return Context(num_positions=int(positions), field="max_position_embeddings")


def too_long(lengths: Lengths, context: Context | None) -> str:
    """Return why a job's sequences do not fit a model; empty where they do."""
    total = lengths.prompt_tokens + lengths.response_tokens
    if context is None or total <= context.num_positions:
        return ""
    return (
        f"data.maxPromptTokens ({lengths.prompt_tokens}) and data.maxResponseTokens "
        f"({lengths.response_tokens}) are {total} tokens together, and the model has "
        f"{context.num_positions} positions ({context.field} in config.json): lower one of "
        "the two, or take a model with a longer context"
    )


def _number(fields: Mapping[str, Any], name: str) -> float:
    value = fields.get(name)
    return value if isinstance(value, int | float) and math.isfinite(value) else 0


def _scaling(config: Mapping[str, Any]) -> Mapping[str, Any]:
    found = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(found, Mapping):
        return {}
    # Some models scale by kind of layer; those that see everything set the limit.
    whole = found.get("full_attention")
    return whole if isinstance(whole, Mapping) else found
