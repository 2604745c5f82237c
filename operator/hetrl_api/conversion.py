"""Conversion between models of the API and dataclasses of the core, by the names of fields.

The conversion of a kind names only the fields whose name, unit or type differs.
"""

from collections.abc import Callable, Container, Mapping
from dataclasses import is_dataclass
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

from pydantic import BaseModel

Value = TypeVar("Value")
Model = TypeVar("Model", bound=BaseModel)


def to_core(kind: type[Value], model: BaseModel, /, **differing: Any) -> Value:
    """Return a value of the core with the fields that a model has under the same names.

    A field that is unset in the model keeps the core's default. A part that is a model becomes the
    dataclass that the core declares for this field.

    Args:
        kind: a dataclass of the core.
        model: an object of the API, or a part of one.
        differing: the other fields of ``kind``, and those that are not carried over as they are.

    Raises:
        TypeError: ``kind`` does not have one of these fields, or needs one more.
        ValueError: ``kind`` refuses a field's value.
    """
    make: Callable[..., Value] = kind
    return make(**shared_fields(kind, model, exclude=differing), **differing)


def from_core(kind: type[Model], value: object, /, **differing: Any) -> Model:
    """Return a model of the API with the fields that a value of the core has under the same names.

    Args:
        kind: the model; fields that neither ``value`` nor ``differing`` has keep their defaults.
        value: a dataclass of the core.
        differing: the other fields of ``kind``, and those that are not carried over as they are.

    Raises:
        ValidationError: a field is missing, not known or not valid.
    """
    names = [name for name in kind.model_fields if name not in differing and hasattr(value, name)]
    return kind(**{name: getattr(value, name) for name in names}, **differing)


def shared_fields(kind: type, model: BaseModel, *, exclude: Container[str] = ()) -> dict[str, Any]:
    """Return the set fields of a model that a dataclass of the core has under the same names."""
    names = _types(kind).keys() & type(model).model_fields.keys()
    values = {name: getattr(model, name) for name in names if name not in exclude}
    return {
        name: _converted(value, _types(kind)[name])
        for name, value in values.items()
        if value is not None
    }


def _converted(value: object, declared: Any) -> object:
    if not isinstance(value, BaseModel):
        return value
    kinds = (declared, *get_args(declared))
    (kind,) = (each for each in kinds if isinstance(each, type) and is_dataclass(each))
    return to_core(kind, value)


@cache
def _types(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)
