"""A problem with its reference solution, as every format of data gives it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from hetrl_runtime.data.record import Missing, answer_of, chat_of, value_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A problem and its reference solution."""

    question: str
    answer: str
    line: int
    """Its line or row in the file, counted from 1."""

    messages: tuple[Mapping[str, str], ...] = ()
    """The chat that ends in the question; empty where the question is all of it."""

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
    question, answer = value_at(record, fields.question), value_at(record, fields.answer)
    for name, value in ((fields.question, question), (fields.answer, answer)):
        if isinstance(value, Missing):
            return Unusable(message=f"{place}: has no {name!r}")
    chat, reference = chat_of(question), answer_of(answer)
    if chat is None:
        return _unusable(place, fields.question, question, or_else=", or messages of a chat")
    if reference is None:
        return _unusable(place, fields.answer, answer)
    kept = record if fields.keeps_others else {fields.question: question, fields.answer: answer}
    for name, value in kept.items():
        if fault := _encoding_fault(name) or _encoding_fault(value):
            return Unusable(message=f"{place}: {name!r} {fault}")
    return Prompt(
        question=chat.question,
        answer=reference,
        messages=chat.messages if len(chat.messages) > 1 else (),
        line=number,
        columns=record if fields.keeps_others else {},
    )


def _unusable(place: str, name: str, value: Any, *, or_else: str = "") -> Unusable:
    shown = json.dumps(value, default=str)[:60]
    return Unusable(
        message=f"{place}: {name!r} must be text that is not blank{or_else}, got {shown}"
    )


def _encoding_fault(value: object) -> str:
    """Say why a value cannot be sent on as UTF-8; empty where it can.

    JSON may hold half of a pair of surrogates, as a text that was cut inside an emoji does.
    """
    try:
        text = (
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        )
        text.encode()
    except UnicodeEncodeError as error:
        half = ord(error.object[error.start])
        return (
            f"has half a character (U+{half:04X}, character {error.start + 1}), which UTF-8 cannot "
            "encode: remove it, or write the whole character"
        )
    except (TypeError, ValueError, RecursionError) as error:
        return f"cannot be written as JSON: {error}"
    return ""
