"""Ownership of an object's fields, and fields that stay although their manager dropped them.

Server-side apply removes a field only where no other manager owns it. The API server records a
creation by POST as operation ``Update``, which counts as another manager than our own ``Apply``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from hetrl_operator.model.labels import FIELD_MANAGER

Json = Mapping[str, Any]
JsonPatch = list[dict[str, Any]]


def created_as_applied(metadata: Json) -> JsonPatch | None:
    """Return a JSON patch by which fields of our creation count as applied by us.

    It works like ``csaupgrade`` of client-go. The patch fails with a conflict if the object has
    changed since ``metadata`` was read.

    Args:
        metadata: of the object, with ``managedFields``, ``uid`` and ``resourceVersion``.

    Returns:
        None where no field is owned by an ``Update`` of ours.
    """
    entries: Sequence[Json] = metadata.get("managedFields") or ()
    created = [each for each in entries if _is_ours(each, "Update")]
    if not created:
        return None
    applied = [each for each in entries if _is_ours(each, "Apply")]
    rest = [each for each in entries if each not in created and each not in applied]
    fields: Json = {}
    for each in (*applied, *created):
        fields = _union(fields, each.get("fieldsV1") or {})
    ours = {**created[-1], "operation": "Apply", "fieldsV1": fields}
    version = metadata["resourceVersion"]
    return [
        *is_object(metadata["uid"]),
        {"op": "replace", "path": "/metadata/managedFields", "value": [ours, *rest]},
        # Not a test: the API server answers a conflict to another version, as to any stale write.
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
    ]


def is_object(uid: str) -> JsonPatch:
    """Return the test by which a JSON patch fails on a newer object of the same name."""
    return [{"op": "test", "path": "/metadata/uid", "value": uid}]


def has_more(found: Any, written: Any) -> bool:
    """Tell whether a stored value has fields or items that are not in what was applied."""
    if isinstance(found, Mapping) and isinstance(written, Mapping):
        return any(
            name not in written or has_more(value, written[name]) for name, value in found.items()
        )
    if isinstance(found, Sequence) and isinstance(written, Sequence) and not isinstance(found, str):
        pairs = zip(found, written, strict=False)
        return len(found) > len(written) or any(has_more(*each) for each in pairs)
    return False


def _is_ours(entry: Json, operation: str) -> bool:
    key = (entry.get("manager"), entry.get("operation"), entry.get("subresource", ""))
    return key == (FIELD_MANAGER, operation, "")


def _union(left: Json, right: Json) -> Json:
    """Merge two sets of fields in the form of ``fieldsV1``: a trie whose leaves are empty."""
    both = {name: _union(left[name], right[name]) for name in left.keys() & right.keys()}
    return {**left, **right, **both}
