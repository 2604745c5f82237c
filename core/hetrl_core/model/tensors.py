"""The tensors of a model's files against those that its ``config.json`` asks for."""

import re
from collections.abc import Iterator, Sequence

from hetrl_core.model.family import Sizes, family_of
from hetrl_core.model.folder import ModelFolder

_DTYPES = {"F64", "F32", "BF16", "F16"}
_IGNORED = re.compile(r"rotary_emb\.inv_freq$|(^|\.)position_ids$")
"""Written by older versions of transformers, which now computes them; it leaves them out too."""

_HEAD, _EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"
_MAX_NAMED = 3


def wrong_tensors(folder: ModelFolder, sizes: Sizes) -> Iterator[str]:
    """Yield what is missing, left over, or of another shape or format."""
    if folder.tensors is None:
        return
    expected = family_of(folder.config).tensors(folder.config, sizes)
    given = {name: each for name, each in folder.tensors.items() if not _IGNORED.search(name)}
    # A tied matrix may be written under the head's name as well.
    tied = {_HEAD} if sizes.ties_embeddings else set()
    missing = [name for name in expected if name not in given]
    if missing:
        yield f"the weights lack {_named(missing)}, which config.json asks for{_why(missing)}"
    left_over = [name for name in given if name not in expected and name not in tied]
    if left_over:
        yield f"the weights have {_named(left_over)}, which config.json does not ask for"
    shapes = {name: expected.get(name, expected[_EMBEDDING]) for name in {*expected, *tied}}
    odd = [
        f"{name} is {each.shape}, config.json says {shapes[name]}"
        for name, each in given.items()
        if name in shapes and each.shape != shapes[name]
    ]
    if odd:
        yield f"the weights are of other dimensions: {_named(odd)}"
    quantised = [
        f"{name} ({each.dtype})" for name, each in given.items() if each.dtype not in _DTYPES
    ]
    if quantised:
        yield f"the weights are no plain float32, bfloat16 or float16: {_named(quantised)}"


def _why(missing: Sequence[str]) -> str:
    return " with tie_word_embeddings false" if list(missing) == [_HEAD] else ""


def _named(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
