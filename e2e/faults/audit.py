"""Requests from the API server's audit log, from a moment on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One answered request."""

    user: str
    """Empty where the API server could not tell who asked, as with the token of a deleted pod."""

    verb: str
    resource: str
    """Plural, with the subresource after a slash."""

    namespace: str
    name: str
    code: int
    message: str
    """Why it was refused; empty where it was not."""

    at: datetime
    answered_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLog:
    """A log and the place from which it is read."""

    path: Path
    offset: int = 0

    def now(self) -> AuditLog:
        """Return the log from this moment on."""
        return AuditLog(path=self.path, offset=self.path.stat().st_size)

    def entries(self) -> Iterator[Entry]:
        """Yield what was answered since; a line that is being written is left for later."""
        with self.path.open("rb") as log:
            log.seek(self.offset)
            for line in log:
                if not line.endswith(b"\n"):
                    return
                found = _entry(json.loads(line))
                if found:
                    yield found

    def writes_of(self, *users: str) -> list[Entry]:
        """Return what some users wrote, or tried to."""
        return [each for each in self.entries() if each.user in users and each.verb in WRITES]


def creates(entries: list[Entry]) -> Counter[str]:
    """Count by ``resource/namespace/name`` how often the API server recreated an object."""
    return Counter(
        f"{each.resource}/{each.namespace}/{each.name}"
        for each in entries
        if each.code == 201 and each.resource != "events" and "/" not in each.resource
    )


def _entry(line: dict[str, object]) -> Entry | None:
    reference, status = line.get("objectRef"), line.get("responseStatus")
    user = line["user"]
    if not isinstance(reference, dict) or not isinstance(status, dict):
        return None
    assert isinstance(user, dict)
    subresource = f"/{reference['subresource']}" if "subresource" in reference else ""
    return Entry(
        user=str(user.get("username", "")),
        verb=str(line["verb"]),
        resource=f"{reference.get('resource', '')}{subresource}",
        namespace=str(reference.get("namespace", "")),
        name=str(reference.get("name", "")),
        code=int(status.get("code", 0)),
        message=str(status.get("message", "")),
        at=datetime.fromisoformat(str(line["requestReceivedTimestamp"])),
        answered_at=datetime.fromisoformat(str(line["stageTimestamp"])),
    )
