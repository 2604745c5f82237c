"""A problem with its reference solution, as every format of data gives it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from hetrl_core.job.layout import LAYOUTS
from hetrl_core.job.spec import DataSpec, PromptSet
from hetrl_runtime.data.record import Chat, Missing, answer_of, chat_of, value_at

_MAX_NAMES = 12
QUESTION_MARK = "{question}"
"""What a template has in the place of the question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A problem and its reference solution."""

    question: str
    answer: str
    line: int
    """Its line or row in the file, counted from 1."""

    messages: tuple[Mapping[str, str], ...] = ()
    """The chat that the policy answers; empty where the question is all of it."""

    columns: Mapping[str, Any] = field(default_factory=dict)
    """All fields of its record by name, where the job's reward takes them; else empty."""

    set_name: str = ""
    """The data set that it is of, where there are several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusable:
    """The reason why a file cannot be trained on; names the file and any line."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """How a record becomes a prompt; GSM8K's fields by default."""

    question: str = "question"
    answer: str = "answer"
    keeps_others: bool = False
    """Whether the other fields are read too."""

    system_prompt: str = ""
    """The first message of every chat; empty: the record's own, if any."""

    template: str = ""
    """Text with ``{question}`` in place of the last message; empty: the message as it is."""

    @classmethod
    def of(cls, data: DataSpec, prompt_set: PromptSet | None = None) -> "Fields":
        """Return what a job says of the records of a set; None: of the only one."""
        named = prompt_set or data.prompt_sets[0]
        return cls(
            question=named.question_field,
            answer=named.answer_field,
            keeps_others=data.reward_takes_columns,
            system_prompt=data.system_prompt,
            template=data.prompt_template,
        )

    def worded(self, chat: Chat) -> Chat:
        """Return a chat with the system prompt and in the template, where there are any."""
        *before, last = chat.messages
        if self.system_prompt:
            rest = (each for each in before if each["role"] != "system")
            before = [{"role": "system", "content": self.system_prompt}, *rest]
        if self.template:
            last = {**last, "content": self.template.replace(QUESTION_MARK, last["content"])}
        return Chat(messages=(*before, last))


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
            return Unusable(message=f"{place}: has no {name!r}{_hint(record)}")
    chat, reference = chat_of(question), answer_of(answer)
    if chat is None:
        return _unusable(place, fields.question, question, or_else=", or messages of a chat")
    if reference is None:
        return _unusable(place, fields.answer, answer)
    kept = record if fields.keeps_others else {fields.question: question, fields.answer: answer}
    for name, value in kept.items():
        if fault := _encoding_fault(name) or _encoding_fault(value):
            return Unusable(message=f"{place}: {name!r} {fault}")
    worded = fields.worded(chat)
    is_plain = len(worded.messages) == 1 and worded.question == chat.question
    return Prompt(
        question=chat.question,
        answer=reference,
        messages=() if is_plain else worded.messages,
        line=number,
        columns=record if fields.keeps_others else {},
    )


def _hint(record: Mapping[str, Any]) -> str:
    """Say which fields a record has, and which layout it is of."""
    if not record:
        return ": it has no fields"
    names = ", ".join(list(record)[:_MAX_NAMES]) + (", ..." if len(record) > _MAX_NAMES else "")
    layouts = [
        layout
        for layout, fields in LAYOUTS.items()
        if not any(isinstance(value_at(record, name), Missing) for name in fields)
    ]
    also = f", or spec.data.format {layouts[0]}" if layouts else ""
    return f"; its fields are {names}: set spec.data.questionField and answerField{also}"


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
