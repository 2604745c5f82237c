"""Weights as what changed in them since others: exact to the bit, compressed, checked.

A patch turns a base, or nothing, into the bytes of a safetensors file. Bytes are grouped by
their place in a number (signs and exponents hardly change from step to step, low mantissa bits
always do), then compressed with Zstandard. Bytes in, bytes out: no torch, nothing is executed, and
what a peer sends can be wrong without harm.

    header   magic, SHA-256 of the base (zeros: none), SHA-256 and size of the result
    blocks   size of a number, raw size, packed size, packed bytes; in order, without gaps
"""

import hashlib
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow

from hetrl_runtime.transport.weights.regions import Bytes, are_alike, regions

NO_BASE = bytes(32)
BLOCK_BYTES = 4 << 20
"""Of raw bytes in a block: no packed one may claim more."""

_MAGIC = b"HetRLp1\n"
_HEADER = struct.Struct("<8s32s32sQ")
_BLOCK = struct.Struct("<BII")
_LENGTH = struct.Struct("<Q")
_LEVEL = 1
"""Higher ones take several times as long for a few percent."""

_MOST_THREADS = 8
_MOST_RATIO = 256
"""Of the size of weights to that of a patch without a base; those of a model compress to a half.
With a base the result is as large as the base, however small the patch."""

_SMALL_BYTES = 64 << 20
"""Up to here a patch may make anything."""

Item = TypeVar("Item")
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfit:
    """A patch that cannot be applied here, and why."""

    reason: str


def make(result: Bytes, *, base: Bytes | None = None) -> bytes:
    """Return the patch that turns a base into a result; both are whole files.

    With a base of another shape the patch is one that needs no base.
    """
    if base is not None and not are_alike(base, result):
        base = None
    header = _HEADER.pack(
        _MAGIC, NO_BASE if base is None else digest(base), digest(result), len(result)
    )
    blocks = list(_blocks(result))
    return b"".join((header, *_in_threads(lambda block: _pack(block, result, base), blocks)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    start: int
    num_bytes: int
    number_bytes: int


def _pack(block: _Block, result: Bytes, base: Bytes | None) -> bytes:
    change = np.frombuffer(result, np.uint8, block.num_bytes, block.start)
    if base is not None:
        change = change ^ np.frombuffer(base, np.uint8, block.num_bytes, block.start)
    packed = _codec().compress(_by_place(change, block.number_bytes), asbytes=True)
    return _BLOCK.pack(block.number_bytes, block.num_bytes, len(packed)) + bytes(packed)


def base_of(patch: Bytes) -> bytes:
    """Return the SHA-256 of what a patch is for; ``NO_BASE`` where it needs nothing."""
    return bytes(patch[len(_MAGIC) : len(_MAGIC) + len(NO_BASE)])


def digest(data: Bytes) -> bytes:
    """Return what bases and results are recognised by."""
    return hashlib.sha256(data).digest()


def apply(patch: Bytes, *, base: Bytes | None = None) -> bytearray | Unfit:
    """Return the bytes that a patch makes of a base; a wrong base shows in the result's digest."""
    if bytes(patch[: len(_MAGIC)]) != _MAGIC or len(patch) < _HEADER.size:
        return Unfit(reason=f"these {len(patch)} bytes are no patch of this release")
    _, base_sha256, result_sha256, result_bytes = _HEADER.unpack_from(patch)
    if base_sha256 == NO_BASE:
        base = None
    elif base is None or len(base) != result_bytes:
        return Unfit(reason=f"the patch is for a base of {result_bytes} bytes, which is not here")
    blocks = _packed_blocks(memoryview(patch)[_HEADER.size :], has_base=base is not None)
    if isinstance(blocks, Unfit):
        return blocks
    # Any size may be claimed: only what the blocks can hold is believed.
    if (made_bytes := sum(each.raw_bytes for each in blocks)) != result_bytes:
        return Unfit(reason=f"the patch makes {made_bytes} of {result_bytes} bytes")
    result = bytearray(result_bytes)
    problems = filter(None, _in_threads(lambda block: _unpack(block, result, base), blocks))
    if problem := next(problems, None):
        return problem
    if digest(result) != result_sha256:
        return Unfit(reason="the patched weights have a wrong digest")
    return result


def join(patches: Iterable[bytes]) -> bytes:
    """Return patches as one, each for what the one before makes."""
    return b"".join(part for each in patches for part in (_LENGTH.pack(len(each)), each))


def apply_joined(patches: Bytes, *, base: Bytes | None = None) -> bytearray | Unfit:
    """Apply what ``join`` put together, one after the other."""
    rest, result = memoryview(patches), None
    while rest:
        length = _LENGTH.unpack_from(rest)[0] if len(rest) >= _LENGTH.size else len(rest)
        patch = rest[_LENGTH.size : _LENGTH.size + length]
        if len(patch) < length:
            return Unfit(reason=f"{len(patch)} of a patch's {length} bytes are here")
        found = apply(patch, base=base)
        if isinstance(found, Unfit):
            return found
        base = result = found
        rest = rest[_LENGTH.size + length :]
    return Unfit(reason="there is no patch") if result is None else result


@dataclass(frozen=True, slots=True, kw_only=True)
class _Packed:
    start: int
    raw_bytes: int
    number_bytes: int
    data: memoryview


def _packed_blocks(rest: memoryview, *, has_base: bool) -> list[_Packed] | Unfit:
    found: list[_Packed] = []
    start, patch_bytes = 0, len(rest)
    while rest:
        if len(rest) < _BLOCK.size:
            return Unfit(reason="a block of the patch has no header")
        number_bytes, raw_bytes, packed_bytes = _BLOCK.unpack_from(rest)
        data = rest[_BLOCK.size : _BLOCK.size + packed_bytes]
        if len(data) < packed_bytes or not 0 < raw_bytes <= BLOCK_BYTES or not number_bytes:
            return Unfit(reason=f"a block of {raw_bytes} bytes, packed {packed_bytes}, cannot be")
        found.append(
            _Packed(start=start, raw_bytes=raw_bytes, number_bytes=number_bytes, data=data)
        )
        start += raw_bytes
        rest = rest[_BLOCK.size + packed_bytes :]
    if not has_base and start > max(_SMALL_BYTES, _MOST_RATIO * patch_bytes):
        return Unfit(reason=f"{patch_bytes} bytes of patch claim to make {start}")
    return found


def _unpack(block: _Packed, result: bytearray, base: Bytes | None) -> Unfit | None:
    """Write a block where it belongs."""
    try:
        raw = _codec().decompress(block.data, decompressed_size=block.raw_bytes, asbytes=True)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        return Unfit(reason=f"a block of the patch cannot be unpacked: {error}")
    if len(raw) != block.raw_bytes:
        return Unfit(reason=f"a block of {block.raw_bytes} bytes has {len(raw)}")
    change = _in_order(np.frombuffer(raw, np.uint8), block.number_bytes)
    place = np.frombuffer(result, np.uint8, block.raw_bytes, block.start)
    if base is None:
        place[:] = change
    else:
        np.bitwise_xor(
            change, np.frombuffer(base, np.uint8, block.raw_bytes, block.start), out=place
        )
    return None


def _in_threads(work: Callable[[Item], Found], items: Sequence[Item]) -> Iterator[Found]:
    """Do as ``map`` does; numpy and Zstandard leave the interpreter to others meanwhile."""
    num_threads = min(_MOST_THREADS, len(os.sched_getaffinity(0)), len(items))
    if num_threads < 2:  # noqa: PLR2004  # nothing to share
        yield from map(work, items)
        return
    with ThreadPoolExecutor(num_threads, thread_name_prefix="weights-patch") as threads:
        yield from threads.map(work, items)


def _by_place(data: npt.NDArray[np.uint8], number_bytes: int) -> npt.NDArray[np.uint8]:
    """Put the first bytes of all numbers before all second ones, and so on."""
    whole = len(data) - len(data) % number_bytes
    planes = np.ascontiguousarray(data[:whole].reshape(-1, number_bytes).T).ravel()
    return planes if whole == len(data) else np.concatenate((planes, data[whole:]))


def _in_order(data: npt.NDArray[np.uint8], number_bytes: int) -> npt.NDArray[np.uint8]:
    """Undo ``_by_place``, into an array of one's own."""
    whole = len(data) - len(data) % number_bytes
    found = np.empty_like(data)
    found[:whole].reshape(-1, number_bytes)[:] = data[:whole].reshape(number_bytes, -1).T
    found[whole:] = data[whole:]
    return found


def _blocks(data: Bytes) -> Iterator[_Block]:
    for start, stop, number_bytes in regions(data):
        for at in range(start, stop, BLOCK_BYTES):
            yield _Block(start=at, num_bytes=min(stop - at, BLOCK_BYTES), number_bytes=number_bytes)


def _codec() -> pyarrow.Codec:
    return pyarrow.Codec("zstd", compression_level=_LEVEL)
