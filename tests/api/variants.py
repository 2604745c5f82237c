"""Variants of an object of the API, in each of which one field differs."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from hetrl_api.validation.rules import ApiModel, parts


def is_leaf(part: type[ApiModel], name: str) -> bool:
    """Return whether a field has no fields of its own."""
    annotation: Any = part.model_fields[name].annotation
    return not parts(annotation)


def _other(value: Any) -> Any:
    """A value of the same type that differs."""
    match value:
        case bool():
            return not value
        case Enum():
            return next(each for each in type(value) if each is not value)
        case int() | float():
            return value + 1
        case str():
            return f"{value}x"
        case datetime():
            return value + timedelta(seconds=1)
        case tuple():
            return (*value, "other")
        case dict():
            return {**value, "other": "value"}
    raise TypeError(f"no other value of {type(value)} is known")


def variants(model: ApiModel) -> Iterator[tuple[str, ApiModel]]:
    """Each set field of a model and its parts, by name, with the model when this field differs."""
    for name in type(model).model_fields:
        value = getattr(model, name)

        def with_value(changed: Any, name: str = name) -> ApiModel:
            return model.model_copy(update={name: changed})

        if is_leaf(type(model), name):
            if value is not None:
                yield f"{type(model).__name__}.{name}", with_value(_other(value))
        else:
            yield from _variants_inside(value, with_value)


def _variants_inside(
    value: Any, rebuild: Callable[[Any], ApiModel]
) -> Iterator[tuple[str, ApiModel]]:
    if isinstance(value, ApiModel):
        for field, part in variants(value):
            yield field, rebuild(part)
    for number, each in enumerate(value if isinstance(value, tuple) else ()):
        for field, part in variants(each):
            yield field, rebuild((*value[:number], part, *value[number + 1 :]))
