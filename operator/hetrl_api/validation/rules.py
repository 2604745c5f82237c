"""Rules over several fields of an object, written once in CEL beside the model they bind.

The API server enforces them from the CRD; the same expressions are evaluated here, so that
`hetrl plan` and `hetrl run` refuse the same objects with the same words.
"""

import typing
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, model_validator
from pydantic.alias_generators import to_camel

from hetrl_api.validation.errors import RuleViolationError

if TYPE_CHECKING:
    from cel import Program

STORED = "stored"
"""Key of a validation's context: whether the object comes from a cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One condition that must hold for an object of a model, as ``self``."""

    condition: str
    """CEL that is true of a good object."""

    message: str
    """What to say otherwise: the full field, the limit, and ``{}`` for each of ``values``."""

    values: tuple[str, ...] = ()
    """CEL for the values that the message shows."""

    field: str = ""
    """The field to blame, relative to the model: ``.maxStaleness``; empty: the object."""

    spares_stored: bool = False
    """Whether objects that a cluster has stored are exempt: an earlier release accepted them. The
    API server spares unchanged parts itself."""

    @property
    def compares_with_old(self) -> bool:
        """Whether the rule is about a change, which only the API server can see."""
        return "oldSelf" in self.condition

    def to_schema(self) -> dict[str, str]:
        """Return the entry for ``x-kubernetes-validations``."""
        entry = {"rule": self.condition, **self._message_schema()}
        return {**entry, "fieldPath": self.field} if self.field else entry

    def violation(self, fields: Mapping[str, Any]) -> str | None:
        """Return what to say about an object's fields, or None when the rule holds."""
        if self.compares_with_old or _value(self.condition, fields):
            return None
        if not self.values:
            return self.message
        return self.message.format(*(_value(each, fields) for each in self.values))

    def _message_schema(self) -> dict[str, str]:
        if not self.values:
            return {"message": self.message}
        # The API server knows what `format` costs at most; of `string(x) + y` it does not,
        # and refuses the whole CRD.
        template = self.message.replace("'", r"\'").replace("{}", "%s")
        return {"messageExpression": f"'{template}'.format([{', '.join(self.values)}])"}


def exactly_one(field: str, members: tuple[str, ...], *, of: str) -> Rule:
    """Return the rule that one member of a union is set, and no other."""
    present = ", ".join(f"has({of}.{member})" for member in members)
    return Rule(
        condition=f"[{present}].filter(x, x).size() == 1",
        message=f"{field} must set exactly one of {', '.join(members)}",
        field=of.removeprefix("self"),
    )


def not_yet(field: str, *, path: str, instead: str) -> Rule:
    """Return the rule that refuses an optional field that this release does not honour."""
    parent, _, name = path.rpartition(".")
    optional = parent.split(".")[1:]
    guards = [f"!has(self.{'.'.join(optional[: n + 1])})" for n in range(len(optional))]
    return Rule(
        condition=" || ".join([*guards, f"!has({parent}.{name})"]),
        message=f"{field} is not supported yet: {instead}",
        field=path.removeprefix("self"),
    )


def value_not_yet(field: str, *, name: str, value: str, instead: str) -> Rule:
    """Return the rule that refuses one value of a field that always has one."""
    return Rule(
        condition=f"self.{name} != '{value}'",
        message=f"{field} {value} is not supported yet: {instead}",
        field=f".{name}",
    )


def section(kind: type[BaseModel]) -> Any:
    """Return the field of a part that is always there, with its own defaults when unset."""
    return Field(default_factory=kind, json_schema_extra={"default": {}})


def _add_rules(schema: dict[str, Any], model: type["ApiModel"]) -> None:
    if model.rules:
        schema["x-kubernetes-validations"] = [rule.to_schema() for rule in model.rules]


class ApiModel(BaseModel):
    """What every part of the API has in common: camelCase, no unknown fields, its rules."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        json_schema_extra=_add_rules,
    )

    rules: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _hold_rules(self, info: ValidationInfo) -> Self:
        if self.rules:
            fields = self.model_dump(mode="json", by_alias=True, exclude_none=True)
            is_stored = bool(info.context and info.context.get(STORED))
            rules = (each for each in self.rules if not (is_stored and each.spares_stored))
            broken = [said for rule in rules if (said := rule.violation(fields))]
            if broken:
                raise RuleViolationError(broken)
        return self


def parts(model: type[ApiModel]) -> tuple[type[ApiModel], ...]:
    """Return a model and every model inside it, outermost first."""
    found: dict[type[ApiModel], None] = {}
    waiting: list[object] = [model]
    while waiting:
        each = waiting.pop(0)
        if not (isinstance(each, type) and issubclass(each, ApiModel)):
            waiting += typing.get_args(each)
        elif each not in found:
            found[each] = None
            waiting += [field.annotation for field in each.model_fields.values()]
    return tuple(found)


def _value(expression: str, fields: Mapping[str, Any]) -> Any:
    return _compiled(expression).execute({"self": fields})


@cache
def _compiled(expression: str) -> "Program":
    # Imported at the first use: it takes longer than the rest of this package together,
    # and `hetrl --help` needs none of it.
    import cel  # noqa: PLC0415

    return cel.compile(expression)
