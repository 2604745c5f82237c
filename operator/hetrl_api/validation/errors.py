"""Validation errors of an object, in words for its author.

Each message is one line that names the field, the value and the limit. This module rewrites
pydantic's messages; rules bring their own.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from hetrl_api.validation.lists import DUPLICATE

_PLACES = {
    "greater_than_equal": "must be >= {ge}",
    "greater_than": "must be > {gt}",
    "less_than_equal": "must be <= {le}",
    "less_than": "must be < {lt}",
    "enum": "must be {expected}",
    "literal_error": "must be {expected}",
    "string_too_short": "must have at least {min_length} character(s)",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
    "too_long": "must have at most {max_length} entries",
    "too_short": "must have at least {min_length} entries",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "datetime_from_date_parsing": "must be a time such as 2026-01-31T12:00:00Z",
    "datetime_parsing": "must be a time such as 2026-01-31T12:00:00Z",
    "datetime_type": "must be a time such as 2026-01-31T12:00:00Z",
    "timezone_aware": "must be a time with a zone, such as 2026-01-31T12:00:00Z",
}


class InvalidObjectError(ValueError):
    """A document that is not a valid object; ``str()`` gives one line for each mistake."""

    def __init__(self, messages: Iterable[str]) -> None:
        self.messages = tuple(messages)
        super().__init__("\n".join(self.messages))


class RuleViolationError(ValueError):
    """One or more validation rules of a model do not hold."""

    def __init__(self, messages: Iterable[str]) -> None:
        self.messages = tuple(messages)
        super().__init__("; ".join(self.messages))


def in_words(error: ValidationError, *, known_fields: Iterable[str] = ()) -> tuple[str, ...]:
    """Say what pydantic found, one line for each mistake.

    Args:
        error: what a model raised.
        known_fields: names to suggest when a field is not known.
    """
    found = error.errors(include_url=False)
    return tuple(line for each in found for line in _lines(each, tuple(known_fields)))


def field_path(location: Iterable[int | str]) -> str:
    """Write a location as people do: ``spec.resources.pools[0].name``."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{_on_one_line(part)}"
    return path.removeprefix(".") or "the document"


def _on_one_line(name: str) -> str:
    return name if name.isprintable() else repr(name)


def _lines(each: Any, known_fields: tuple[str, ...]) -> tuple[str, ...]:
    field, kind = field_path(each["loc"]), each["type"]
    context = each.get("ctx", {})
    if isinstance(context.get("error"), RuleViolationError):
        return tuple(context["error"].messages)
    if kind == DUPLICATE:
        return (f"{field}[{context['index']}] repeats {context['key']}",)
    if kind == "missing":
        return (f"{field} is required",)
    if kind == "extra_forbidden":
        near = _nearest(str(each["loc"][-1]), known_fields)
        return (f"{field} is not a field" + (f": did you mean {near}?" if near else ""),)
    words = _PLACES.get(kind)
    said = words.format_map(context) if words else each["msg"]
    return (f"{field} {said}, got {_shown(each['input'])}",)


def _nearest(name: str, known_fields: tuple[str, ...]) -> str | None:
    by_lower_case = {known.lower(): known for known in known_fields}
    near = get_close_matches(name.lower(), by_lower_case, n=1)
    return by_lower_case[near[0]] if near else None


def _shown(value: object) -> str:
    longest = 60
    text = repr(value)
    return text if len(text) <= longest else f"{text[:longest]}…"
