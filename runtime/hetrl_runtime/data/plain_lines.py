"""Files that cannot be read from their middle, written once as JSON lines to a temporary file.

Compressed files, CSV and JSON arrays have no places to seek to; prompts are read in any order.
"""

import bz2
import codecs
import csv
import gzip
import json
import lzma
import shutil
import tempfile
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from hetrl_runtime.data.prompt import Unusable

_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
"""How compressed files begin."""

_PARQUET_MAGIC = b"PAR1"
_ENDINGS = {".gz", ".bz2", ".xz", ".zst"}
_DELIMITERS = {".csv": ",", ".tsv": "\t"}

_CHUNK_CHARS = 1 << 20
_LONGEST_FIELD_CHARS = 1 << 27
"""Of CSV: Python's own limit, 131,072, is shorter than some worked solutions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainLines:
    """JSON lines that can be read from any line on."""

    file: BinaryIO
    numbers: "array[int] | None" = None
    """The line or record of the original file, for each line here; None: they are the same."""


def plain_lines(path: Path) -> PlainLines | Unusable:
    """Return a file as JSON lines; what is not will be in a temporary file.

    Raises:
        OSError: it cannot be read, or the temporary folder has no room.
    """
    file = _decompressed(path)
    if isinstance(file, Unusable):
        return file
    delimiter = _DELIMITERS.get(_form(path))
    if delimiter:
        return _written(path, file, _table(path, file, delimiter))
    first = _first_char(file)
    if first == b"P" and file.read(4) == _PARQUET_MAGIC:
        file.close()
        return Unusable(message=f"{path} is Parquet: its name must end in .parquet, uncompressed")
    if first == b"[":
        return _written(path, file, _array(path, file))
    return PlainLines(file=file)


def _form(path: Path) -> str:
    """Return the ending that names a file's form, in lower case."""
    endings = [each.lower() for each in path.suffixes]
    while endings and endings[-1] in _ENDINGS:
        endings.pop()
    return endings[-1] if endings else ""


def _decompressed(path: Path) -> BinaryIO | Unusable:
    file = path.open("rb")
    begin = file.read(8)
    file.seek(0)
    name = next((each for magic, each in _MAGIC.items() if begin.startswith(magic)), "")
    if not name:
        return file
    file.close()
    plain = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115  # the caller closes it
    try:
        with _reader(path, name) as packed:
            shutil.copyfileobj(packed, plain)
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile, ValueError, OSError) as error:
        plain.close()
        # An error of a disk has a number; a decompressor's has none.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        return Unusable(message=f"{path}: its {name} data are damaged or cut off: {error}")
    plain.seek(0)
    return plain


def _reader(path: Path, name: str) -> IO[bytes]:
    if name == "gzip":
        return cast("IO[bytes]", gzip.open(path))
    if name == "bzip2":
        return bz2.open(path)
    if name == "xz":
        return lzma.open(path)
    # Imported at the first use: few data need it, and it is large.
    import pyarrow  # noqa: PLC0415

    return cast("IO[bytes]", pyarrow.input_stream(str(path), compression="zstd"))


def _first_char(file: BinaryIO) -> bytes:
    begin = file.read(1 << 16)
    file.seek(0)
    return begin.removeprefix(codecs.BOM_UTF8).lstrip()[:1]


def _written(
    path: Path, file: BinaryIO, records: "Iterator[tuple[int, Any] | Unusable]"
) -> PlainLines | Unusable:
    """Write records to a temporary file, a line each."""
    lines = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115  # the caller closes it
    numbers = array("q")
    try:
        for each in records:
            if isinstance(each, Unusable):
                lines.close()
                return each
            number, record = each
            lines.write(json.dumps(record).encode() + b"\n")
            numbers.append(number)
    except UnicodeDecodeError as error:
        lines.close()
        return Unusable(message=f"{path}: {not_utf8(error)}")
    finally:
        file.close()
    lines.seek(0)
    return PlainLines(file=lines, numbers=numbers)


def not_utf8(error: UnicodeDecodeError) -> str:
    """Say which byte is not UTF-8, and what to do."""
    byte = error.object[error.start]
    return (
        f"not UTF-8: byte 0x{byte:02x} at {error.start}; convert the file, as with iconv -t UTF-8"
    )


def _table(path: Path, file: BinaryIO, delimiter: str) -> "Iterator[tuple[int, Any] | Unusable]":
    """Yield the rows of a table with a header, by the line on which each ends."""
    csv.field_size_limit(_LONGEST_FIELD_CHARS)
    with TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        rows = csv.reader(text, delimiter=delimiter, strict=True)
        try:
            yield from _rows(path, rows, delimiter)
        except csv.Error as error:
            yield Unusable(message=f"{path}:{rows.line_num}: not CSV: {error}")


def _rows(path: Path, rows: Any, delimiter: str) -> "Iterator[tuple[int, Any] | Unusable]":
    header: list[str] = next(rows, [])
    if len(set(header)) < len(header):
        yield Unusable(message=f"{path}:1: the header names a column twice")
        return
    for row in filter(None, rows):
        if len(row) != len(header):
            yield Unusable(
                message=f"{path}:{rows.line_num}: has {len(row)} fields, the header has "
                f"{len(header)}: a field with {delimiter!r} must be in double quotes"
            )
            return
        yield rows.line_num, dict(zip(header, row, strict=True))


def _array(path: Path, file: BinaryIO) -> "Iterator[tuple[int, Any] | Unusable]":
    """Yield the elements of a JSON array, by their number, without the whole of it in memory."""
    decode, number = json.JSONDecoder().raw_decode, 0
    with TextIOWrapper(file, encoding="utf-8-sig") as text:
        rest = text.read(_CHUNK_CHARS).lstrip().removeprefix("[").lstrip()
        while not rest.startswith("]"):
            try:
                record, end = decode(rest)
            except ValueError as error:
                # An element may go on in the next chunk.
                more = text.read(max(_CHUNK_CHARS, len(rest)))
                if not more:
                    yield Unusable(message=f"{path}: element {number + 1} is not JSON: {error}")
                    return
                rest += more
                continue
            number += 1
            yield number, record
            rest = _after(text, rest[end:])
            if rest.startswith(","):
                rest = _after(text, rest[1:])
            elif not rest.startswith("]"):
                yield Unusable(message=f"{path}: the array is cut off after element {number}")
                return


def _after(text: TextIOWrapper, rest: str) -> str:
    """Return what follows the space between two elements; empty at the end of the file."""
    rest = rest.lstrip()
    while not rest and (more := text.read(_CHUNK_CHARS)):
        rest = more.lstrip()
    return rest
