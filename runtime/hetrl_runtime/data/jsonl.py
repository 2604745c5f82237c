"""A JSONL file of prompts in GSM8K's form: ``{"question": ..., "answer": ...}`` a line.

The whole file is checked once and only the places of its lines are kept, so that a file
larger than memory can be used and a bad line is known before any GPU is. What is not JSON lines
is written as such first: see ``plain_lines``.
"""

import bisect
import json
from array import array
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO

from hetrl_runtime.data.plain_lines import not_utf8, plain_lines
from hetrl_runtime.data.prompt import Fields, Prompt, Unusable, prompt_of

_EXPECTED = (
    "expected JSON lines, one object a line, an array of objects, CSV (.csv, .tsv) or Parquet "
    "(.parquet)"
)


class JsonlPrompts:
    """The prompts of a checked file, by index; lines are read when they are asked for."""

    def __init__(
        self,
        path: Path,
        file: BinaryIO,
        fields: Fields,
        *,
        lines: "array[int]",
        offsets: "array[int]",
    ) -> None:
        self.path = path
        self._fields = fields
        self._lines = lines
        self._offsets = offsets
        self._file = file

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, index: int) -> Prompt:
        self._file.seek(self._offsets[index])
        place = f"{self.path}:{self._lines[index]}"
        found = _parse(self._file.readline(), self._fields, place=place, number=self._lines[index])
        if isinstance(found, Unusable):
            raise OSError(f"{self.path} changed while it was in use: {found.message}")
        return found

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def open_jsonl(path: Path, fields: Fields) -> JsonlPrompts | Unusable:
    """Check a file from end to end and return its prompts, or what is wrong with it.

    Raises:
        OSError: it cannot be read.
    """
    plain = plain_lines(path)
    if isinstance(plain, Unusable):
        return plain
    lines, offsets, offset = array("q"), array("q"), 0
    for row, text in enumerate(plain.file):
        if text.strip():
            number = row + 1 if plain.numbers is None else plain.numbers[row]
            found = _parse(text, fields, place=f"{path}:{number}", number=number)
            if isinstance(found, Unusable):
                plain.file.close()
                return found
            lines.append(number)
            offsets.append(offset)
        offset += len(text)
    return JsonlPrompts(path, plain.file, fields, lines=lines, offsets=offsets)


class Shards:
    """The prompts of several files, one after the other."""

    def __init__(self, files: Sequence[JsonlPrompts]) -> None:
        self._files = files
        self._ends = list(accumulate(map(len, files)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int) -> Prompt:
        number = bisect.bisect_right(self._ends, index)
        return self._files[number][index - (self._ends[number - 1] if number else 0)]

    def close(self) -> None:
        """Close the files."""
        for each in self._files:
            each.close()


def open_jsonl_shards(shards: Sequence[Path], fields: Fields) -> Shards | Unusable:
    """Check files from end to end and return their prompts, or what is wrong with them.

    Raises:
        OSError: one cannot be read.
    """
    found: list[JsonlPrompts] = []
    for each in shards:
        opened = open_jsonl(each, fields)
        if isinstance(opened, Unusable):
            Shards(found).close()
            return opened
        found.append(opened)
    return Shards(found)


def _parse(text: bytes, fields: Fields, *, place: str, number: int) -> Prompt | Unusable:
    try:
        record = json.loads(text)
    except UnicodeDecodeError as error:
        return Unusable(message=f"{place}: {not_utf8(error)}")
    except (ValueError, RecursionError) as error:
        return Unusable(message=f"{place}: not JSON: {error}; {_EXPECTED}")
    if not isinstance(record, dict):
        kind = type(record).__name__
        return Unusable(message=f"{place}: must be a JSON object, got {kind}; {_EXPECTED}")
    return prompt_of(record, fields, place=place, number=number)
