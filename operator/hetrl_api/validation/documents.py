"""YAML text as the API server would read it: numbers like 1e-6, times as strings, no doubles."""

import re
from collections.abc import Hashable
from typing import Any

import yaml

from hetrl_api.validation.errors import InvalidObjectError

_MAX_NODES = 1_000_000
"""Of one document; the plan of a thousand machines has a tenth."""


class _Loader(yaml.SafeLoader):
    """YAML as `kubectl` reads it, where PyYAML differs."""

    def construct_document(self, node: yaml.Node) -> Any:
        """Refuse a document that aliases make far larger than its text."""
        if _size(node, {}) > _MAX_NODES:
            raise InvalidObjectError(
                [f"a document has more than {_MAX_NODES:,} values, aliases (*name) written out"]
            )
        return super().construct_document(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Refuse a key that is written twice: one of the two would be lost silently."""
        seen: set[object] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                line = key.start_mark.line + 1
                raise InvalidObjectError([f"line {line}: {key.value!r} is written twice"])
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """Count the values below a node, each as often as it is referred to."""
    if id(node) not in known:
        # One that refers to itself is refused as what JSON cannot hold.
        known[id(node)] = 1
        parts: list[yaml.Node] = []
        if isinstance(node, yaml.SequenceNode):
            parts = node.value
        elif isinstance(node, yaml.MappingNode):
            parts = [part for pair in node.value for part in pair]
        known[id(node)] = 1 + sum(_size(part, known) for part in parts)
    return known[id(node)]


_Loader.yaml_implicit_resolvers = {
    first: [entry for entry in entries if entry[0] != "tag:yaml.org,2002:timestamp"]
    for first, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


def documents(text: str) -> tuple[dict[str, Any], ...]:
    """Return the objects of a YAML stream, those inside a ``List`` one by one.

    Raises:
        InvalidObjectError: the text is not YAML, or a document is not a mapping.
    """
    try:
        found = [each for each in yaml.load_all(text, Loader=_Loader) if each is not None]
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, InvalidObjectError):
            raise
        raise InvalidObjectError([f"not YAML: {_on_one_line(error)}"]) from error
    return tuple(_mapping(inner) for each in found for inner in _unpacked(_mapping(each)))


def _unpacked(found: dict[str, Any]) -> list[Any]:
    is_list = str(found.get("kind", "")).endswith("List") and isinstance(found.get("items"), list)
    return found["items"] if is_list else [found]


def _mapping(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidObjectError([f"an object must be a mapping, got {str(value)[:60]!r}"])
    return value


def _on_one_line(error: Exception) -> str:
    return " ".join(str(error).split())
