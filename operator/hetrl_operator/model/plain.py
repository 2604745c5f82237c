"""Objects of watches as plain dicts and lists."""

from collections.abc import Mapping, Sequence
from typing import Any


def plain(value: Any) -> Any:
    """Copy kopf's mapping views into dicts and lists that ``json`` can write."""
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(each) for each in value]
    return value
