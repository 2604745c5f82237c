"""A JSONL file of prompts in GSM8K's form: ``{"question": ..., "answer": ...}`` a line.

The whole file is checked once and only the places of its lines are kept, so that a file
larger than memory can be used and a bad line is known before any GPU is.
"""

import json
import os
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A problem and its reference solution."""

    question: str
    answer: str
    line: int
    """Its line in the file, counted from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusable:
    """Why a file cannot be trained on; names the file and, where there is one, the line."""

    message: str


class PromptFile:
    """The prompts of a checked file, by index; lines are read when they are asked for."""

    def __init__(self, path: Path, lines: "array[int]", offsets: "array[int]") -> None:
        self.path = path
        self._lines = lines
        self._offsets = offsets
        self._file: BinaryIO = path.open("rb")

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, index: int) -> Prompt:
        self._file.seek(self._offsets[index])
        found = parse_line(self._file.readline(), source=str(self.path), number=self._lines[index])
        if isinstance(found, Unusable):
            raise OSError(f"{self.path} changed while it was in use: {found.message}")
        return found

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def open_prompts(path: str | os.PathLike[str]) -> PromptFile | Unusable:
    """Check a file from end to end and return its prompts, or what is wrong with it."""
    where = Path(path)
    lines, offsets = array("q"), array("q")
    try:
        with where.open("rb") as file:
            offset = 0
            for number, text in enumerate(file, start=1):
                if text.strip():
                    found = parse_line(text, source=str(where), number=number)
                    if isinstance(found, Unusable):
                        return found
                    lines.append(number)
                    offsets.append(offset)
                offset += len(text)
    except OSError as error:
        return Unusable(message=f"cannot read prompts from {where}: {error.strerror}")
    if not offsets:
        return Unusable(message=f"{where} has no prompts: the file is empty")
    return PromptFile(where, lines, offsets)


def parse_line(text: bytes, *, source: str, number: int) -> Prompt | Unusable:
    """Read one line, or say what is wrong with it and where it is."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Unusable(message=f"{source}:{number}: not JSON: {error}")
    if not isinstance(fields, dict):
        kind = type(fields).__name__
        return Unusable(message=f"{source}:{number}: must be a JSON object, got {kind}")
    for name in ("question", "answer"):
        if name not in fields:
            return Unusable(message=f"{source}:{number}: has no {name!r}")
        value = fields[name]
        if not isinstance(value, str) or not value.strip():
            shown = json.dumps(value)[:60]
            return Unusable(
                message=f"{source}:{number}: {name!r} must be text that is not blank, got {shown}"
            )
    return Prompt(question=fields["question"], answer=fields["answer"], line=number)
