"""A problem with its reference solution, as every format of data gives it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A problem and its reference solution."""

    question: str
    answer: str
    line: int
    """Its line or row in the file, counted from 1."""

    columns: Mapping[str, Any] = field(default_factory=dict)
    """All fields of its record by name, where the job's reward takes them; else empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusable:
    """The reason why a file cannot be trained on; names the file and any line."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Fields of a record with the problem and its solution; GSM8K's by default."""

    question: str = "question"
    answer: str = "answer"
    keeps_others: bool = False
    """Whether the other fields are read too."""


class PromptSource(Protocol):
    """The prompts of data that was checked from end to end, by index, read when asked for."""

    def __len__(self) -> int:
        """Return how many prompts there are."""

    def __getitem__(self, index: int) -> Prompt:
        """Read one of them."""

    def close(self) -> None:
        """Close its files."""


def prompt_of(
    record: Mapping[str, Any], fields: Fields, *, place: str, number: int
) -> Prompt | Unusable:
    """Return the prompt in a record, or what is wrong with it at its place."""
    for name in (fields.question, fields.answer):
        if name not in record:
            return Unusable(message=f"{place}: has no {name!r}")
        value = record[name]
        if not isinstance(value, str) or not value.strip():
            shown = json.dumps(value, default=str)[:60]
            return Unusable(
                message=f"{place}: {name!r} must be text that is not blank, got {shown}"
            )
    return Prompt(
        question=record[fields.question],
        answer=record[fields.answer],
        line=number,
        columns=record if fields.keeps_others else {},
    )
