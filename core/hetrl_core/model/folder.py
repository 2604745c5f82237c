"""A model's folder as it was read: configuration, headers of weights, tokens. No weights."""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from hetrl_core.model.family import Shape

Open = Callable[[str], BinaryIO]
"""Opens a file of the folder by its name there."""

_WEIGHTS, _INDEX = "model.safetensors", "model.safetensors.index.json"
_LENGTH_BYTES, _MAX_HEADER_BYTES = 8, 100_000_000


class UnreadableError(ValueError):
    """A file of the folder is not what it must be; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor of a safetensors file, by its header."""

    shape: Shape
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFolder:
    """What a model's files say."""

    config: Mapping[str, Any]
    generation_config: Mapping[str, Any]
    tensors: Mapping[str, Tensor] | None = None
    """None: there are no weights."""

    tokens: Mapping[int, str] | None = None
    """The tokenizer's tokens by number. None: there is no ``tokenizer.json``."""


def read_folder(names: Collection[str], opened: Open) -> ModelFolder:
    """Read a model's folder of the files ``names``.

    Raises:
        UnreadableError: a file is missing, cut off, or of another format.
        OSError: it cannot be opened.
    """
    if "config.json" not in names:
        raise UnreadableError("there is no config.json")
    if "adapter_config.json" in names:
        raise UnreadableError("adapter_config.json makes it an adapter: merge it into its model")
    config = _json("config.json", opened)
    has_generation = "generation_config.json" in names
    return ModelFolder(
        config=config,
        generation_config=_json("generation_config.json", opened) if has_generation else {},
        tensors=_tensors(names, opened),
        tokens=_tokens(opened) if "tokenizer.json" in names else None,
    )


def weight_files(names: Collection[str], opened: Open) -> tuple[str, ...]:
    """Return the files that hold a model's weights, as transformers chooses them.

    Raises:
        UnreadableError: there is an index of weights that is none.
    """
    if _WEIGHTS in names:
        return (_WEIGHTS,)
    if _INDEX not in names:
        return ()
    files = _json(_INDEX, opened).get("weight_map")
    if not isinstance(files, Mapping) or not files:
        raise UnreadableError(f"{_INDEX} has no weight_map")
    return tuple(sorted({str(each) for each in files.values()}))


def _tensors(names: Collection[str], opened: Open) -> Mapping[str, Tensor] | None:
    found: dict[str, Tensor] = {}
    files = weight_files(names, opened)
    if not set(files) & set(names):
        return None
    for file in files:
        if file not in names:
            raise UnreadableError(f"{_INDEX} names {file}, which is not there")
        found |= _header(file, opened)
    return found


def _header(name: str, opened: Open) -> dict[str, Tensor]:
    with opened(name) as file:
        size = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        if not 0 < size <= _MAX_HEADER_BYTES:
            raise UnreadableError(f"{name} is no safetensors file")
        header = _mapping(name, file.read(size))
        num_bytes = file.seek(0, 2)
    header.pop("__metadata__", None)
    try:
        needed = max((int(each["data_offsets"][1]) for each in header.values()), default=0)
        found = {
            tensor: Tensor(shape=tuple(map(int, each["shape"])), dtype=str(each["dtype"]))
            for tensor, each in header.items()
        }
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise UnreadableError(f"{name} is no safetensors file: its header lacks {error}") from error
    if num_bytes != (whole := _LENGTH_BYTES + size + needed):
        raise UnreadableError(f"{name} is damaged: it has {num_bytes} bytes of {whole}")
    return found


def _tokens(opened: Open) -> Mapping[int, str] | None:
    tokenizer = _json("tokenizer.json", opened)
    try:
        vocabulary = tokenizer.get("model", {}).get("vocab", {})
        if isinstance(vocabulary, Mapping):
            found = {int(number): str(token) for token, number in vocabulary.items()}
        else:
            found = {number: str(each[0]) for number, each in enumerate(vocabulary)}
        added = tokenizer.get("added_tokens") or ()
        return found | {int(each["id"]): str(each["content"]) for each in added}
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
        raise UnreadableError(f"tokenizer.json is not understood: {error!r}") from error


def _json(name: str, opened: Open) -> dict[str, Any]:
    with opened(name) as file:
        return _mapping(name, file.read())


def _mapping(name: str, text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UnreadableError(f"{name} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise UnreadableError(f"{name} must be a mapping, got {type(found).__name__}")
    return found
