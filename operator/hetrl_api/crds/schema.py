"""From a pydantic model to a structural schema, the form that the API server accepts.

pydantic describes documents in JSON Schema of 2020; Kubernetes takes a subset of an
older one: nothing by reference, one type at every node, optional instead of nullable.
"""

from collections.abc import Mapping
from typing import Any

from hetrl_api.validation.rules import ApiModel

Schema = dict[str, Any]

_DROPPED = frozenset(
    ("title", "examples", "propertyNames", "discriminator", "uniqueItems", "$defs", "default")
)
_DEEPEST = 20
"""Levels; no model comes near, unless it contains itself."""

_COMPOSED = frozenset(("allOf", "oneOf", "anyOf", "prefixItems", "patternProperties"))


def structural_schema(model: type[ApiModel]) -> Schema:
    """Return the ``openAPIV3Schema`` of a kind's CRD.

    Raises:
        TypeError: the model uses what no structural schema can say: a union of types, a
            tuple of fixed length, recursion.
    """
    raw = model.model_json_schema(by_alias=True, mode="validation")
    schema = _converted(raw, raw.get("$defs", {}), path=model.__name__)
    properties = schema["properties"]
    # The API server has its own schema for these, and refuses another.
    properties["apiVersion"] = properties["kind"] = {"type": "string"}
    properties["metadata"] = {"type": "object"}
    schema["required"] = [name for name in schema["required"] if name == "spec"]
    return schema


def _converted(raw: Mapping[str, Any], definitions: Mapping[str, Any], *, path: str) -> Schema:
    if path.count(".") > _DEEPEST:
        raise TypeError(f"{path}: a model that contains itself has no structural form")
    node = _one_type(_inlined(raw, definitions), definitions, path=path)
    if composed := sorted(_COMPOSED & node.keys()):
        raise TypeError(f"{path}: {composed[0]} has no structural form")
    converted: Schema = {}
    for key, value in node.items():
        converted.update(_entries(key, value, definitions, path=path))
    _add_format(converted)
    default = node.get("default")
    if default == {} and "properties" in converted:
        converted["default"] = _defaults(converted)
    elif default not in (None, [], {}):
        converted["default"] = default
    return _ordered(converted)


def _inlined(raw: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    """Replace a reference by what it refers to; what is said beside it goes first."""
    node = dict(raw)
    reference = node.pop("$ref", None)
    return {**definitions[reference.rpartition("/")[2]], **node} if reference else node


def _one_type(node: Schema, definitions: Mapping[str, Any], *, path: str) -> Schema:
    """Make ``X or null`` an X that may be left out."""
    alternatives = node.pop("anyOf", None)
    if alternatives is None:
        return node
    present = [each for each in alternatives if each.get("type") != "null"]
    if len(present) != 1:
        raise TypeError(f"{path}: a union of types has no structural form")
    return {**_inlined(present[0], definitions), **node}


def _defaults(node: Schema) -> Schema:
    """Write a part's defaults out: rules are checked against a default before it has any."""
    properties = node["properties"].items()
    return {name: each["default"] for name, each in properties if "default" in each}


def _entries(key: str, value: Any, definitions: Mapping[str, Any], *, path: str) -> Schema:
    """Return what one keyword of JSON Schema becomes."""
    match key:
        case "description":
            return {key: " ".join(value.split())}
        case "properties":
            fields = {
                name: _converted(each, definitions, path=f"{path}.{name}")
                for name, each in value.items()
            }
            return {key: fields}
        case "items" | "additionalProperties":
            # `additionalProperties: false` would contradict `properties`; the API server prunes
            # unknown fields, and `kubectl` refuses them.
            is_schema = isinstance(value, Mapping)
            return {key: _converted(value, definitions, path=f"{path}.*")} if is_schema else {}
        case "const":
            return {"enum": [value]}
        case "exclusiveMinimum" | "exclusiveMaximum":
            return {key.removeprefix("exclusive").lower(): value, key: True}
    return {} if key in _DROPPED else {key: value}


def _add_format(node: Schema) -> None:
    formats = {"integer": "int64", "number": "double"}
    if node.get("type") in formats:
        node["format"] = formats[node["type"]]


_ORDER = ("description", "type", "format", "enum", "default", "pattern", "required", "properties")


def _ordered(node: Schema) -> Schema:
    """Put what people look for first, so that generated files read well and diff small."""
    known = [key for key in _ORDER if key in node]
    return {key: node[key] for key in (*known, *sorted(node.keys() - set(known)))}
