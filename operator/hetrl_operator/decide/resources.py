"""Which objects of a job are written, and which are in the way."""

from dataclasses import dataclass

from hetrl_operator.actions import Action, Apply, Delete, Manifest
from hetrl_operator.decide.conditions import Finding
from hetrl_operator.labels import SPEC_HASH
from hetrl_operator.observed import ChildSeen, Observed
from hetrl_operator.reasons import ConditionType, Reason
from hetrl_operator.render import Deployment, certificates, children, identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What is to be written for a job, and whether that is all."""

    finding: Finding
    actions: tuple[Action, ...] = ()


def resources(seen: Observed, deployment: Deployment) -> Resources:
    """Bring the objects of a job to what its plan says, writing only what differs."""
    ours = {(each.kind, each.name): each for each in seen.children}
    manifests = children(deployment)
    in_the_way = _in_the_way(seen, manifests, ours)
    if in_the_way:
        return Resources(finding=_finding(Reason.CONFLICT, in_the_way))
    writes = tuple(
        Apply(manifest=each) for each in manifests if _differs(each, ours.get(_key(each)))
    )
    actions = (*_identity(deployment, ours), *writes, *_surplus(seen, manifests))
    if seen.trouble:
        return Resources(
            finding=_finding(seen.trouble.reason, seen.trouble.message), actions=actions
        )
    if actions:
        text = f"{len(writes)} of {len(manifests)} objects are to be written"
        return Resources(finding=_finding(Reason.APPLYING, text), actions=actions)
    return Resources(
        finding=Finding(
            type=ConditionType.RESOURCES_CREATED,
            holds=True,
            reason=Reason.CHILDREN_APPLIED,
            message=f"all {len(manifests)} objects are as planned",
        )
    )


def stops(seen: Observed, deployment: Deployment) -> tuple[Action, ...]:
    """Write only the StatefulSets that still stand: the other objects go with their job."""
    standing = {
        each.name: each
        for each in seen.children
        if each.kind == "StatefulSet" and not each.is_deleting and each.owner_uid == seen.job.uid
    }
    return tuple(
        Apply(manifest=each)
        for each in children(deployment)
        if each["kind"] == "StatefulSet"
        and (child := standing.get(each["metadata"]["name"]))
        and _differs(each, child)
    )


def _key(manifest: Manifest) -> tuple[str, str]:
    return manifest["kind"], manifest["metadata"]["name"]


def _differs(manifest: Manifest, child: ChildSeen | None) -> bool:
    wanted = manifest["metadata"]["annotations"][SPEC_HASH]
    return child is None or child.spec_hash != wanted


def _in_the_way(
    seen: Observed, manifests: tuple[Manifest, ...], ours: dict[tuple[str, str], ChildSeen]
) -> str:
    """Name an object that has our name and is not ours, as after a quick delete and create."""
    for manifest in manifests:
        child = ours.get(_key(manifest))
        if child and (child.is_deleting or child.owner_uid != seen.job.uid):
            whose = "is being deleted" if child.is_deleting else "belongs to somebody else"
            return f"{child.kind} {child.name} {whose}; waiting until the name is free"
    return ""


def _identity(deployment: Deployment, ours: dict[tuple[str, str], ChildSeen]) -> tuple[Action, ...]:
    """Issue certificates before the Service says that they exist."""
    service = ours.get(("Service", deployment.service))
    issued = service is not None and service.identity == identity(deployment)
    return () if issued else (certificates(deployment),)


def _surplus(seen: Observed, manifests: tuple[Manifest, ...]) -> tuple[Delete, ...]:
    wanted = {_key(each) for each in manifests}
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
