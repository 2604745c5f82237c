"""What the operator may do, as its roles say it, and what of that the API server saw it do."""

import json
from dataclasses import dataclass

from e2e.cluster.cluster import Cluster, control_plane
from e2e.faults.audit import AuditLog, Entry
from e2e.release import SYSTEM

_ACCOUNT = f"system:serviceaccount:{SYSTEM}:hetrl"
_OF_THE_RELEASE = "app.kubernetes.io/instance=hetrl"
_CREATED, _FORBIDDEN = 201, 403

NEVER_LOGGED = frozenset({("update", "hetrljobs/finalizers")})
"""Asked by admission (OwnerReferencesPermissionEnforcement) within requests for other objects."""

_KIND_UNKNOWN_YET = "cannot find RESTMapping"
"""Not about rights: that admission forbids the objects of a kind whose CRD it has not seen yet.

Its discovery is up to some ten seconds old, and these stories begin with the CRDs.
"""

Right = tuple[str, str]
"""A verb, and a plural with its subresource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What was granted, and what came of it."""

    granted: frozenset[Right]
    used: frozenset[Right]
    refused: tuple[str, ...]
    """Requests in words."""

    @property
    def unused(self) -> frozenset[Right]:
        return self.granted - self.used - NEVER_LOGGED


def rights_of_the_operator(cluster: Cluster) -> Rights:
    """Read the roles of the release, and the audit log from the cluster's first moment on."""
    assert cluster.state
    log = AuditLog(path=control_plane(cluster.state).audit_log)
    asked = [each for each in log.entries() if each.user == _ACCOUNT]
    return Rights(
        granted=_granted(cluster),
        used=frozenset((verb, each.resource) for each in asked for verb in _verbs(each)),
        refused=tuple(
            f"{each.verb} {each.resource} {each.namespace}/{each.name}: {each.message}"
            for each in asked
            if each.code == _FORBIDDEN and _KIND_UNKNOWN_YET not in each.message
        ),
    )


def _verbs(entry: Entry) -> tuple[str, ...]:
    """Return what was asked for: who applies what is not there must be allowed to create it."""
    return (entry.verb, "create") if entry.code == _CREATED else (entry.verb,)


def _granted(cluster: Cluster) -> frozenset[Right]:
    """Return the rights of the roles that are bound to the operator's account."""
    names = ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
    listed = cluster.kubectl("get", ",".join(names), "-A", "-l", _OF_THE_RELEASE, "-o", "json")
    found = json.loads(listed)["items"]
    bound = {
        each["roleRef"]["name"]
        for each in found
        if any(subject["name"] == "hetrl" for subject in each.get("subjects", ()))
    }
    return frozenset(
        (verb, resource)
        for each in found
        if each["metadata"]["name"] in bound
        for rule in each.get("rules", ())
        for verb in rule["verbs"]
        for resource in rule["resources"]
    )
