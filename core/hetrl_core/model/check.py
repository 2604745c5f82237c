"""The check of a model before anything is computed with it: what it is, or what is wrong.

The same function at every door, so that a model is accepted or refused alike, in the same words:
``hetrl plan`` and ``hetrl run``, trainers, inference workers, engines and ``hetrl evaluate``.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from hetrl_core.model.context import Context, Lengths, context_of, too_long
from hetrl_core.model.family import family_of, sizes_of
from hetrl_core.model.folder import ModelFolder, Open, UnreadableError, read_folder
from hetrl_core.model.tensors import wrong_tensors

_MAX_NAMED_TOKENS = 5


class Use(StrEnum):
    """What a model is for."""

    CAUSAL = "a causal language model"
    """The policy, and what begins as it does: reference and critic."""

    REWARD = "a reward model"


_HEADS = {Use.CAUSAL: "ForCausalLM", Use.REWARD: "ForSequenceClassification"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """A model that can be used."""

    config: Mapping[str, Any]
    context: Context | None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelProblems:
    """Every reason why a model cannot be used."""

    reasons: tuple[str, ...]

    def of(self, source: str) -> str:
        """Return the message about a folder or hub id."""
        return f"model {source} cannot be used: {'; '.join(self.reasons)}"


def checked(
    names: Collection[str],
    opened: Open,
    *,
    use: Use,
    lengths: Lengths | None = None,
    needs_weights: bool = True,
) -> ModelFacts | ModelProblems:
    """Read a folder of the files ``names``, and ``check`` it.

    Raises:
        OSError: a file cannot be opened.
    """
    try:
        folder = read_folder(names, opened)
    except UnreadableError as error:
        return ModelProblems(reasons=(str(error),))
    return check(folder, use=use, lengths=lengths, needs_weights=needs_weights)


def check(
    folder: ModelFolder, *, use: Use, lengths: Lengths | None = None, needs_weights: bool = True
) -> ModelFacts | ModelProblems:
    """Say whether a model can be used.

    Args:
        folder: what was read of it.
        use: what it is for.
        lengths: of the job's sequences, where they are known.
        needs_weights: whether it is refused where the folder has no weights; a plan needs none.
    """
    reasons = [*_wrong_format(folder, use), *_wrong_head(folder, use)]
    if use is Use.CAUSAL:
        try:
            sizes = sizes_of(folder.config, family_of(folder.config))
        except ValueError as error:
            # Without a family and dimensions nothing is known of its tensors.
            return ModelProblems(reasons=(str(error), *reasons))
        reasons += _unsupported(folder)
        if not reasons:
            reasons += wrong_tensors(folder, sizes)
    if needs_weights and folder.tensors is None:
        reasons.append(
            "there are no weights: neither model.safetensors nor the files that "
            "model.safetensors.index.json names"
        )
    context = context_of(folder.config)
    reasons += filter(None, [too_long(lengths, context)] if lengths else [])
    if reasons:
        return ModelProblems(reasons=tuple(reasons))
    return ModelFacts(
        config=folder.config, context=context, warnings=tuple(_tokens_without_rows(folder))
    )


def _wrong_format(folder: ModelFolder, use: Use) -> Iterator[str]:
    found = folder.config.get("quantization_config")
    if not found:
        return
    method = found.get("quant_method") if isinstance(found, Mapping) else None
    yield (
        f"config.json has a quantization_config ({method or found}): {use} must have plain weights "
        "in float32, bfloat16 or float16; take the model's unquantised version"
    )


def _wrong_head(folder: ModelFolder, use: Use) -> Iterator[str]:
    found = folder.config.get("architectures")
    head = _HEADS[use]
    if isinstance(found, list) and found and not any(str(each).endswith(head) for each in found):
        yield (
            f"config.json has architectures {', '.join(map(str, found))}: {use} has one that ends "
            f"with {head}"
        )
    if use is Use.REWARD and (outputs := _num_outputs(folder.config)) != 1:
        yield f"config.json has {outputs} labels: a reward model has one output"


def _num_outputs(config: Mapping[str, object]) -> object:
    labels = config.get("id2label")
    # The library's own default is two.
    return len(labels) if isinstance(labels, Mapping) else config.get("num_labels", 2)


def _unsupported(folder: ModelFolder) -> Iterator[str]:
    if folder.config.get("use_bidirectional_attention"):
        yield "config.json has use_bidirectional_attention true: tokens must see earlier ones only"


def _tokens_without_rows(folder: ModelFolder) -> Iterator[str]:
    """Say which tokens the embedding has no row for: a prompt or an end that holds one fails."""
    rows = folder.config.get("vocab_size")
    if folder.tokens is None or not isinstance(rows, int):
        return
    beyond = sorted(number for number in folder.tokens if number >= rows)
    if not beyond:
        return
    named = ", ".join(f"{folder.tokens[each]!r} ({each})" for each in beyond[:_MAX_NAMED_TOKENS])
    more = len(beyond) - _MAX_NAMED_TOKENS
    yield (
        f"{len(beyond)} of the tokenizer's tokens have no row among the embedding's {rows} "
        f"(vocab_size in config.json): {named}{f' and {more} more' if more > 0 else ''}; prompts "
        "that hold one cannot be used"
    )
