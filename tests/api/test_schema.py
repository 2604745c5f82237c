from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import cel
import pytest
from pydantic import Field

from hetrl_api.crds.crd import KINDS, Kind
from hetrl_api.crds.generate import generated_files
from hetrl_api.crds.schema import structural_schema
from hetrl_api.job.job import Metadata
from hetrl_api.validation.lists import Keyed
from hetrl_api.validation.rules import ApiModel, Rule, parts, section

ROOT = Path(__file__).parents[2]
GENERATED = generated_files()


class Colour(StrEnum):
    RED = "Red"


class Inner(ApiModel):
    """An inner part."""

    name: str
    """Its name."""

    count: int = 3
    """How many."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(condition="self.count > 0", message="count must be > 0", field=".count"),
    )


class Self(ApiModel):
    inside: "Self | None" = None


def schema_of(kind: Any, default: Any = ...) -> dict[str, Any]:
    """Return the schema of a field of a kind."""

    class Spec(ApiModel):
        __annotations__ = {"field": kind}
        field = default

    class Thing(ApiModel):
        api_version: str
        kind: str
        metadata: Metadata
        spec: Spec

    found: dict[str, Any] = structural_schema(Thing)["properties"]["spec"]["properties"]["field"]
    return found


INNER = {
    "description": "An inner part.",
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"description": "Its name.", "type": "string"},
        "count": {"description": "How many.", "type": "integer", "format": "int64", "default": 3},
    },
    "x-kubernetes-validations": [
        {"rule": "self.count > 0", "message": "count must be > 0", "fieldPath": ".count"}
    ],
}


@pytest.mark.parametrize(
    ("field", "default", "expected"),
    [
        (int, ..., {"type": "integer", "format": "int64"}),
        (int | None, None, {"type": "integer", "format": "int64"}),
        (
            Annotated[float, Field(gt=0, le=2)],
            1.0,
            {
                "type": "number",
                "format": "double",
                "default": 1.0,
                "minimum": 0,
                "exclusiveMinimum": True,
                "maximum": 2,
            },
        ),
        (bool, False, {"type": "boolean", "default": False}),
        (Colour, Colour.RED, {"type": "string", "enum": ["Red"], "default": "Red"}),
        (Literal["only"], ..., {"type": "string", "enum": ["only"]}),
        (tuple[str, ...], (), {"type": "array", "items": {"type": "string"}}),
        (
            dict[Annotated[str, Field(max_length=9)], str],
            {},
            {
                "type": "object",
                "additionalProperties": {"type": "string"},
            },
        ),
        (Inner, ..., INNER),
        (Inner | None, None, INNER),
        (
            Annotated[tuple[Inner, ...], Keyed(("name",), most=4)],
            (),
            {
                "type": "array",
                "items": INNER,
                "maxItems": 4,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ],
    ids=[
        "a number",
        "an optional number",
        "an open interval",
        "a flag",
        "an enum",
        "a constant",
        "a list",
        "a map",
        "a part",
        "an optional part",
        "a list by name",
    ],
)
def test_field_has_a_structural_form(field: Any, default: Any, expected: dict[str, Any]) -> None:
    found = schema_of(field, default)

    assert {key: found[key] for key in found if key != "description"} == {
        key: expected[key] for key in expected if key != "description"
    }


@pytest.mark.parametrize(
    "field",
    [int | str, tuple[int, str], Self],
    ids=["a union", "a tuple of fixed length", "a part inside itself"],
)
def test_model_without_structural_form_is_refused(field: Any) -> None:
    with pytest.raises(TypeError, match="no structural form"):
        schema_of(field)


def test_default_of_a_part_is_written_out() -> None:
    class Outer(ApiModel):
        count: int = 3
        name: str | None = None

    assert schema_of(Outer, section(Outer))["default"] == {"count": 3}


@pytest.mark.parametrize("path", sorted(GENERATED))
def test_generated_files_are_up_to_date(path: str) -> None:
    written = (ROOT / path).read_text(encoding="utf-8")

    assert written == GENERATED[path], "run `make crds`"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_crds_stay_small_enough_for_client_side_apply(kind: Kind) -> None:
    # kubectl keeps the whole object in an annotation, and annotations end at 256 KiB.
    assert len(GENERATED[f"crds/{kind.crd_name}.yaml"]) < 128 * 1024


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_fields_are_described_and_bounded(kind: Kind) -> None:
    loose = list(_loose(structural_schema(kind.model)["properties"]["spec"], "spec"))

    assert not loose


each_rule = pytest.mark.parametrize(
    ("where", "rule"),
    [
        pytest.param(part.__name__, rule, id=f"{part.__name__}: {rule.condition[:40]}")
        for kind in KINDS
        for part in parts(kind.model)
        for rule in part.rules
    ],
)


@each_rule
def test_rules_name_their_field_in_full(where: str, rule: Rule) -> None:
    assert rule.message.startswith(("spec", "metadata.name")), where


@each_rule
def test_rules_and_messages_compile(where: str, rule: Rule) -> None:
    schema = rule.to_schema()
    for name in {"rule", "messageExpression"} & schema.keys():
        assert cel.compile(schema[name]), where


def _loose(node: dict[str, Any], path: str) -> list[str]:
    if "type" not in node:
        assert node == {"x-kubernetes-preserve-unknown-fields": True}
        return []
    kind = node["type"]
    found = [] if "description" in node or path.endswith(("[]", "*")) else [f"{path}: no words"]
    is_open_text = kind == "string" and not node.keys() & {"maxLength", "enum", "format"}
    if is_open_text or (kind == "array" and "maxItems" not in node):
        found.append(f"{path}: no limit")
    if "additionalProperties" in node and "maxProperties" not in node:
        found.append(f"{path}: no limit")
    for name, each in node.get("properties", {}).items():
        found += _loose(each, f"{path}.{name}")
    for key, suffix in (("items", "[]"), ("additionalProperties", ".*")):
        if key in node:
            found += _loose(node[key], path + suffix)
    return found
