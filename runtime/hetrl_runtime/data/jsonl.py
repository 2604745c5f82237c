"""A JSONL file of prompts in GSM8K's form: ``{"question": ..., "answer": ...}`` a line.

The whole file is checked once and only the places of its lines are kept, so that a file
larger than memory can be used and a bad line is known before any GPU is.
"""

import json
from array import array
from pathlib import Path
from typing import BinaryIO

from hetrl_runtime.data.prompt import Fields, Prompt, Unusable, prompt_of


class JsonlPrompts:
    """The prompts of a checked file, by index; lines are read when they are asked for."""

    def __init__(
        self, path: Path, fields: Fields, *, lines: "array[int]", offsets: "array[int]"
    ) -> None:
        self.path = path
        self._fields = fields
        self._lines = lines
        self._offsets = offsets
        self._file: BinaryIO = path.open("rb")

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
    lines, offsets = array("q"), array("q")
    with path.open("rb") as file:
        offset = 0
        for number, text in enumerate(file, start=1):
            if text.strip():
                found = _parse(text, fields, place=f"{path}:{number}", number=number)
                if isinstance(found, Unusable):
                    return found
                lines.append(number)
                offsets.append(offset)
            offset += len(text)
    return JsonlPrompts(path, fields, lines=lines, offsets=offsets)


def _parse(text: bytes, fields: Fields, *, place: str, number: int) -> Prompt | Unusable:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Unusable(message=f"{place}: not JSON: {error}")
    if not isinstance(record, dict):
        kind = type(record).__name__
        return Unusable(message=f"{place}: must be a JSON object, got {kind}")
    return prompt_of(record, fields, place=place, number=number)
