"""The state that must be equal after every disturbance: everything but identity and time."""

from __future__ import annotations

import json
import re
from difflib import unified_diff
from typing import Any

from e2e.faults.api import Json

_VOLATILE = {
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "generation",
    "generateName",
    "deletionTimestamp",
}
_HASHES = re.compile(r'("hetrl\.dev/(?:[a-z-]+-hash|identity)": ")[^"]+')
_MOST_CHANGES = 12
"""Limit of reported lines of one object."""

_TIMES = re.compile(r'("hetrl\.dev/replaced-at": ")[^"]+')


def snapshot(objects: dict[str, list[Json]]) -> dict[str, str]:
    """Return the state that matters as text by ``kind/name``; equal states give equal texts."""
    uids = [each["metadata"]["uid"] for each in objects["hetrljobs"]]
    found = {}
    for kind, items in objects.items():
        for each in items:
            text = json.dumps(_reduced(kind, each), sort_keys=True, indent=1)
            for uid in uids:
                text = text.replace(uid, "UID")
            # Digests cover the job's uid.
            text = _TIMES.sub(r"\1TIME", _HASHES.sub(r"\1HASH", text))
            found[f"{kind}/{each['metadata']['name']}"] = text
    return found


def differences(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Say in words what differs between two snapshots."""
    found = [f"missing: {name}" for name in sorted(before.keys() - after.keys())]
    found += [f"not expected: {name}" for name in sorted(after.keys() - before.keys())]
    for name in sorted(before.keys() & after.keys()):
        if before[name] != after[name]:
            found.append(f"{name}: {'; '.join(_changes(before[name], after[name]))}")
    return found


def _changes(before: str, after: str) -> list[str]:
    """Return the lines that went, with a minus, and those that came, with a plus."""
    lines = unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    said = [f"{each[0]} {each[1:].strip()}" for each in lines if each[:2] not in {"--", "++", "@@"}]
    return [*said[:_MOST_CHANGES], *(("…",) if len(said) > _MOST_CHANGES else ())]


def _reduced(kind: str, body: Json) -> Any:
    metadata = {k: v for k, v in body["metadata"].items() if k not in _VOLATILE}
    match kind:
        case "hetrljobs":
            return {"spec": body["spec"], "status": _job_status(body.get("status") or {})}
        case "secrets":
            # Certificates are random; that they are there is what counts.
            return {"metadata": metadata, "data": sorted(body["data"])}
        case "pods":
            labels, spec = metadata["labels"], body["spec"]
            # A coordinator needs no GPU, and runs wherever the scheduler likes.
            is_placed = labels["hetrl.dev/role"] != "coordinator"
            return {
                "labels": {k: v for k, v in labels.items() if k.startswith("hetrl.dev/")},
                "gates": spec.get("schedulingGates", []),
                "node": spec.get("nodeName") if is_placed else "",
                "phase": body["status"]["phase"],
            }
        case "services" | "statefulsets" | "configmaps" | "hetrlplans":
            return {"metadata": metadata, **{k: body[k] for k in ("spec", "data") if k in body}}
        case _:
            raise ValueError(f"nothing is known of {kind}")


def _job_status(status: Json) -> Json:
    kept = {k: status.get(k) for k in ("phase", "plan", "podSets", "trainer", "rollout")}
    conditions = {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}
    return {**kept, "conditions": conditions}
