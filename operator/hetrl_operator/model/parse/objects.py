"""Fields that all kinds of objects have: keys, owners, times."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from hetrl_operator.model.labels import (
    JOB_NAME,
)

Body = Mapping[str, Any]


JobKey = tuple[str, str]
"""Namespace and name of a HetRLJob."""


def key_of_owner(body: Body) -> JobKey | None:
    """Return the key of the job that a child belongs to, by its label."""
    name = (body["metadata"].get("labels") or {}).get(JOB_NAME)
    return (body["metadata"]["namespace"], name) if name else None


def controller_of(metadata: Body) -> Body | None:
    """Return the owner reference of an object's controller."""
    owners: Sequence[Body] = metadata.get("ownerReferences") or ()
    return next((each for each in owners if each.get("controller")), None)


def optional_time(text: str | None) -> datetime | None:
    """Return a time of an object; None where it has none."""
    return time_of(text) if text else None


def time_of(text: str) -> datetime:
    """Return a time of an object."""
    return datetime.fromisoformat(text)
