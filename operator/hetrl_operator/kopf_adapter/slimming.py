"""Removal of an indexed object's content, which no code reads any more, except its metadata.

While kopf lists all objects, it keeps each one whole until the last one is indexed: fourteen
thousand objects of a thousand jobs, which take hundreds of MiB. ``model.parse`` reads objects
before that.
"""

from collections.abc import Mapping
from typing import Any


def strip_content(body: Mapping[str, Any]) -> None:
    """Empty an object that kopf holds, except the metadata, which distinguishes its events."""
    body["metadata"].pop("managedFields", None)
    for name in body:
        if name != "metadata" and isinstance(content := body[name], dict):
            content.clear()
