"""Values of a record in the forms that data sets have: nested fields, numbers, chats."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_ROLES = {"system", "user", "assistant"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """The first field on a dotted path that a record does not have."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """Messages that a policy answers, the last of them a user's."""

    messages: tuple[Mapping[str, str], ...]

    @property
    def question(self) -> str:
        """The last message."""
        return self.messages[-1]["content"]


def value_at(record: Mapping[str, Any], name: str) -> Any | Missing:
    """Return a field; without one of this name, ``a.b`` is field ``b`` inside field ``a``."""
    if name in record:
        return record[name]
    first, dot, rest = name.partition(".")
    inside = record.get(first) if dot else None
    if not isinstance(inside, Mapping):
        return Missing(name=name)
    return value_at(inside, rest)


def answer_of(value: Any) -> str | None:
    """Return a text that is not blank, or a number as text; None for everything else."""
    if isinstance(value, str):
        return value if value.strip() else None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number and math.isfinite(value) else None


def chat_of(value: Any) -> Chat | None:
    """Return a text that is not blank, or messages, as a chat; None for everything else."""
    if isinstance(value, str):
        value = [{"role": "user", "content": value}]
    if not isinstance(value, list) or not value or not all(map(_is_message, value)):
        return None
    if value[-1]["role"] != "user":
        return None
    messages = ({"role": each["role"], "content": each["content"]} for each in value)
    return Chat(messages=tuple(messages))


def _is_message(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and value.get("role") in _ROLES
        and isinstance(value.get("content"), str)
        and bool(value["content"].strip())
    )
