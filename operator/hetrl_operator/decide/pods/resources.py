"""Writes of a job's objects, and conflicts with other objects."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from hetrl_operator.model.actions import Action, Apply, Delete
from hetrl_operator.model.conditions import Finding
from hetrl_operator.model.name_conflict import NameConflict, name_conflict
from hetrl_operator.model.observed import ChildSeen, Observed
from hetrl_operator.model.reasons import ConditionType, Reason
from hetrl_operator.render import Deployment, certificates, children, digests, identity

_Key = tuple[str, str]
"""Kind and name of an object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The pending writes of a job's objects, with condition ResourcesCreated."""

    finding: Finding
    actions: tuple[Action, ...] = ()


def resources(seen: Observed, deployment: Deployment) -> Resources:
    """Bring the objects of a job to what its plan says, writing only what differs."""
    ours = {(each.kind, each.name): each for each in seen.children}
    wanted = digests(deployment).objects
    conflict = _conflict(seen, wanted, ours)
    if conflict:
        return Resources(finding=_finding(conflict.reason, conflict.message))
    differ = {key for key, digest in wanted.items() if _differs(digest, ours.get(key))}
    writes = _writes(deployment, differ)
    actions = (*_identity(deployment, ours), *writes, *_surplus(seen, wanted))
    if seen.refused_write:
        return Resources(
            finding=_finding(seen.refused_write.reason, seen.refused_write.message), actions=actions
        )
    if actions:
        text = f"{len(writes)} of {len(wanted)} objects are to be written"
        return Resources(finding=_finding(Reason.APPLYING, text), actions=actions)
    return Resources(
        finding=Finding(
            type=ConditionType.RESOURCES_CREATED,
            holds=True,
            reason=Reason.CHILDREN_APPLIED,
            message=f"all {len(wanted)} objects are as planned",
        )
    )


def refused(seen: Observed) -> tuple[Finding, ...]:
    """Return condition ResourcesCreated if the last write was refused."""
    if seen.refused_write is None:
        return ()
    return (_finding(seen.refused_write.reason, seen.refused_write.message),)


def stops(seen: Observed, deployment: Deployment) -> tuple[Action, ...]:
    """Write only the existing StatefulSets: the other objects are deleted with their job."""
    existing = {
        (each.kind, each.name): each
        for each in seen.children
        if each.kind == "StatefulSet" and not each.is_deleting and each.owner_uid == seen.job.uid
    }
    wanted = digests(deployment).objects
    differ = {
        key for key in wanted.keys() & existing.keys() if _differs(wanted[key], existing[key])
    }
    return _writes(deployment, differ)


def _writes(deployment: Deployment, keys: set[_Key]) -> tuple[Apply, ...]:
    """Render the objects to write, if there are any."""
    if not keys:
        return ()
    return tuple(
        Apply(manifest=each)
        for each in children(deployment)
        if (each["kind"], each["metadata"]["name"]) in keys
    )


def _differs(digest: str, child: ChildSeen | None) -> bool:
    return child is None or child.spec_hash != digest


def _conflict(
    seen: Observed, wanted: Collection[_Key], ours: Mapping[_Key, ChildSeen]
) -> NameConflict | None:
    """Return the first object that has the name of a child and is not one."""
    found = (name_conflict(ours[key], seen.job) for key in wanted if key in ours)
    return next((each for each in found if each), None)


def _identity(deployment: Deployment, ours: Mapping[_Key, ChildSeen]) -> tuple[Action, ...]:
    """Issue certificates before the Service says that they exist."""
    service = ours.get(("Service", deployment.service))
    issued = service is not None and service.identity == identity(deployment)
    return () if issued else (certificates(deployment),)


def _surplus(seen: Observed, wanted: Collection[_Key]) -> tuple[Delete, ...]:
    return tuple(
        Delete(kind=each.kind, name=each.name, uid=each.uid, why="not in the plan any more")
        for each in seen.children
        if (each.kind, each.name) not in wanted
        and each.owner_uid == seen.job.uid
        and not each.is_deleting
    )


def _finding(reason: str, message: str) -> Finding:
    return Finding(
        type=ConditionType.RESOURCES_CREATED, holds=False, reason=reason, message=message
    )
