"""Reader of a job's children."""

from hetrl_operator.model.labels import (
    FIELDS_HASH,
    IDENTITY,
    SPEC_HASH,
)
from hetrl_operator.model.observed import (
    ChildSeen,
)
from hetrl_operator.model.parse.objects import Body, controller_of


def child_seen(kind: str, body: Body) -> ChildSeen:
    """Read the metadata of an object that has the name of a job's child."""
    metadata = body["metadata"]
    annotations = metadata.get("annotations") or {}
    controller = controller_of(metadata)
    return ChildSeen(
        kind=kind,
        name=metadata["name"],
        uid=metadata["uid"],
        owner_uid=controller["uid"] if controller else "",
        owner=f"{controller['kind']} {controller['name']}" if controller else "",
        spec_hash=annotations.get(SPEC_HASH, ""),
        fields_hash=annotations.get(FIELDS_HASH, ""),
        identity=annotations.get(IDENTITY, ""),
        is_deleting="deletionTimestamp" in metadata,
    )
