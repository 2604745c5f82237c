"""The API's reference page, written from the same schemas as the CRDs."""

from collections.abc import Iterator
from typing import Any

from hetrl_api.crds.crd import KINDS, Kind
from hetrl_api.crds.schema import structural_schema
from hetrl_api.validation.rules import parts

_LIMITS = (
    ("minimum", ">= {}"),
    ("maximum", "<= {}"),
    ("maxLength", "at most {} characters"),
    ("maxItems", "at most {} entries"),
    ("maxProperties", "at most {} entries"),
)


def reference_page() -> str:
    """Return ``docs/api.md``."""
    head = (
        "# API reference: `hetrl.dev/v1alpha1`\n\n"
        "Written by `make crds` from `operator/hetrl_api`; edit the models, not this page.\n"
        "A field without a default is optional unless it is marked as required. What is marked\n"
        "as not supported yet is refused by the API server, never ignored.\n"
    )
    return "\n".join([head, *(_section(kind) for kind in KINDS)])


def _section(kind: Kind) -> str:
    schema = structural_schema(kind.model)
    lines = [
        f"## {kind.name}",
        "",
        f"{schema['description']} {kind.scope}; `kubectl get {kind.short_name}`.",
        "",
        "| field | type | default | limits | meaning |",
        "|---|---|---|---|---|",
    ]
    for part in ("spec", "status"):
        if part in schema["properties"]:
            node = schema["properties"][part]
            lines += list(_rows(part, node, is_required=part in schema["required"]))
    rules = [f"- {rule}" for rule in _rules(kind)]
    lines += ["", *(["Rules:", "", *rules, ""] if rules else [])]
    return "\n".join(lines)


def _rows(path: str, node: dict[str, Any], *, is_required: bool) -> Iterator[str]:
    cells = (
        f"`{path}`",
        _type(node),
        "required" if is_required else _default(node),
        _limits(node),
        node.get("description", ""),
    )
    yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    inner, suffix = (node["items"], "[]") if node.get("type") == "array" else (node, "")
    for name, each in inner.get("properties", {}).items():
        required = name in inner.get("required", ())
        yield from _rows(f"{path}{suffix}.{name}", each, is_required=required)


def _type(node: dict[str, Any]) -> str:
    if "enum" in node:
        return " or ".join(f"`{value}`" for value in node["enum"])
    if "type" not in node:
        return "any value"
    if node["type"] == "array":
        return f"list of {_type(node['items'])}"
    if "additionalProperties" in node:
        return f"map to {_type(node['additionalProperties'])}"
    return "time" if node.get("format") == "date-time" else str(node["type"])


def _default(node: dict[str, Any]) -> str:
    default = node.get("default")
    if default is None or default == {}:
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _limits(node: dict[str, Any]) -> str:
    said = []
    for key, words in _LIMITS:
        if key in node:
            sign = words.replace("=", "") if node.get(f"exclusive{key.capitalize()}") else words
            said.append(sign.format(node[key]))
    return ", ".join(said)


def _rules(kind: Kind) -> Iterator[str]:
    for part in parts(kind.model):
        for rule in part.rules:
            # A pattern in it is no link.
            yield rule.message.replace("{}", "…").replace("[", "\\[")
