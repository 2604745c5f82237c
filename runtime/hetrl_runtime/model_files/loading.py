"""Errors of libraries that load a model, by one question: can a restart help?"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hetrl_runtime.model_files.errors import ModelError

_LASTING = {
    errno.ENOENT,
    errno.EACCES,
    errno.EPERM,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
}


@contextmanager
def loading(what: str) -> Iterator[None]:
    """Make a ``ModelError`` of whatever the block raises, but for what may pass.

    The files were checked before: an error that a library finds in them is the same each time.
    """
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        if _may_pass(error):
            raise
        raise ModelError(f"{what} cannot be loaded: {type(error).__name__}: {error}") from error


def expect_tied(model: Any, what: str) -> None:
    """Refuse a model whose two vocabulary matrices differ, where it is to have one.

    The library loads both then, and others one of them.

    Raises:
        ModelError: they do.
    """
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    if model.config.tie_word_embeddings and head.weight is not embedding.weight:
        raise ModelError(untied(what))


def untied(what: str) -> str:
    """Return the words about such a model."""
    return (
        f"{what} cannot be used: config.json says tie_word_embeddings true, and the weights have "
        "an lm_head.weight that is not model.embed_tokens.weight: correct config.json, or remove "
        "lm_head.weight"
    )


def _may_pass(error: Exception) -> bool:
    """Tell whether memory, a network or a disk may be better after a restart."""
    # torch's error by its name: a check of rows runs where torch is not imported.
    if type(error).__name__ == "OutOfMemoryError":
        return True
    if isinstance(error, MemoryError | ConnectionError | TimeoutError):
        return True
    # Libraries raise one without a number for anything that they do not find.
    return isinstance(error, OSError) and error.errno not in {None, *_LASTING}
