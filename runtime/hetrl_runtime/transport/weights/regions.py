"""Regions of numbers in a safetensors file, and the bytes of each number.

Any bytes may be asked about: what is not safetensors is one region of single bytes.
"""

import json
from collections.abc import Iterator
from typing import NamedTuple

Bytes = bytes | bytearray | memoryview

_MAX_HEADER_BYTES = 100 << 20
_LENGTH_BYTES = 8
_NUMBER_BYTES = {
    "F64": 8,
    "I64": 8,
    "U64": 8,
    "F32": 4,
    "I32": 4,
    "U32": 4,
    "F16": 2,
    "BF16": 2,
    "I16": 2,
    "U16": 2,
}


class Region(NamedTuple):
    """Numbers of one size, from byte ``start`` to before ``stop``."""

    start: int
    stop: int
    number_bytes: int


def regions(data: Bytes) -> Iterator[Region]:
    """Yield the header, the tensors and what lies between them: all of a file, without gaps."""
    done = start = _data_start(data)
    yield Region(0, start, 1)
    for each in _tensors(data, start):
        if not done <= each.start <= each.stop <= len(data):
            break
        yield Region(done, each.start, 1)
        yield each
        done = each.stop
    yield Region(done, len(data), 1)


def are_alike(one: Bytes, other: Bytes) -> bool:
    """Tell whether two files have the same tensors at the same places."""
    start = _data_start(other)
    return len(one) == len(other) and bytes(one[:start]) == bytes(other[:start])


def _data_start(data: Bytes) -> int:
    if len(data) < _LENGTH_BYTES:
        return len(data)
    header_bytes = int.from_bytes(data[:_LENGTH_BYTES], "little")
    if header_bytes > min(_MAX_HEADER_BYTES, len(data) - _LENGTH_BYTES):
        return len(data)
    return _LENGTH_BYTES + header_bytes


def _tensors(data: Bytes, start: int) -> list[Region]:
    """Return where tensors lie, in the file's order; nothing where it is not safetensors."""
    try:
        header = json.loads(bytes(data[_LENGTH_BYTES:start]))
        return sorted(
            Region(
                start + int(each["data_offsets"][0]),
                start + int(each["data_offsets"][1]),
                _NUMBER_BYTES.get(each["dtype"], 1),
            )
            for name, each in header.items()
            if name != "__metadata__"
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        return []
