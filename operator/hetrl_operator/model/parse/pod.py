"""Readers of pods: those of pod sets, and those of preflights."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from hetrl_api.fleet.fleet import GPU_RESOURCE
from hetrl_core.task import Role
from hetrl_operator.model.containers import others_trouble, own_container
from hetrl_operator.model.labels import (
    COMPONENT,
    GANG_GATE,
    JOB_NAME,
    POD_SET,
    PREFLIGHT,
    PREFLIGHT_HASH,
    RESTART_HASH,
    ROLE,
    child_name,
)
from hetrl_operator.model.observed import (
    PodSeen,
    PreflightPodSeen,
    Termination,
)
from hetrl_operator.model.parse.objects import Body, controller_of, optional_time, time_of

EVICTED_EXIT_CODE = 137
"""Exit code of an evicted pod: that of SIGKILL, since its containers report none."""


def pod_seen(body: Body) -> PodSeen | None:
    """Read a pod of a job's StatefulSet; None for another pod, whatever its labels say."""
    metadata, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    labels = metadata.get("labels") or {}
    role, ordinal = _role(labels), metadata["name"].rpartition("-")[2]
    controller = _set_of(metadata)
    if role is None or controller is None or not ordinal.isdecimal():
        return None
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    container = own_container(status, role)
    reason, message = _waiting(conditions, container)
    is_ready = conditions.get("Ready", {}).get("status") == "True"
    return PodSeen(
        name=metadata["name"],
        uid=metadata["uid"],
        pod_set=labels[POD_SET],
        role=role,
        ordinal=int(ordinal),
        set_uid=controller["uid"],
        created_at=time_of(metadata["creationTimestamp"]),
        node=spec.get("nodeName") or "",
        nominated_node=status.get("nominatedNodeName") or "",
        gpus=_gpus(spec),
        scheduled_at=_since(conditions, "PodScheduled", status="True"),
        unschedulable_since=_since(
            conditions, "PodScheduled", status="False", reason="Unschedulable"
        ),
        # The API server writes the time at which the grace ends.
        deletion_due_at=optional_time(metadata.get("deletionTimestamp")),
        is_gated=_is_gated(spec),
        is_ready=is_ready,
        restarts=int(container.get("restartCount", 0)),
        waiting_reason=reason,
        waiting_message=message,
        termination=_termination(container) or _eviction(status, conditions),
        others_trouble="" if is_ready else others_trouble(body, role),
        restart_hash=(metadata.get("annotations") or {}).get(RESTART_HASH, ""),
        affinity_nodes=_affinity_nodes(spec),
        selected_hostname=_selected_hostname(spec),
    )


def _role(labels: Body) -> Role | None:
    known = {str(each): each for each in Role}
    return known.get(labels.get(ROLE, ""))


def _set_of(metadata: Body) -> Body | None:
    """Return the reference to the StatefulSet that a pod of ours belongs to.

    The set and the pod have the names that we and the set give. Anybody who may create pods may
    set our labels, but two objects cannot have one name.
    """
    labels, controller = metadata.get("labels") or {}, controller_of(metadata)
    if POD_SET not in labels or controller is None or controller.get("kind") != "StatefulSet":
        return None
    name = metadata["name"].rpartition("-")[0]
    is_named = controller["name"] == name == child_name(labels.get(JOB_NAME, ""), labels[POD_SET])
    return controller if is_named else None


def preflight_pod_seen(body: Body) -> PreflightPodSeen | None:
    """Read the pod of a preflight; None for another pod."""
    metadata, status = body["metadata"], body.get("status") or {}
    if (metadata.get("labels") or {}).get(COMPONENT) != PREFLIGHT:
        return None
    controller = controller_of(metadata)
    has_ended = status.get("phase") in {"Succeeded", "Failed"}
    return PreflightPodSeen(
        name=metadata["name"],
        uid=metadata["uid"],
        owner_uid=controller["uid"] if controller else "",
        digest=(metadata.get("annotations") or {}).get(PREFLIGHT_HASH, ""),
        created_at=time_of(metadata["creationTimestamp"]),
        node=(body.get("spec") or {}).get("nodeName") or "",
        deletion_due_at=optional_time(metadata.get("deletionTimestamp")),
        has_ended=has_ended,
        message=_last_words(status) if has_ended else "",
        waiting="" if has_ended else _waits(status),
    )


def _last_words(status: Body) -> str:
    """Return the container's termination message, or why the whole pod ended."""
    for container in status.get("containerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated") or {}
        if ended:
            return str(ended.get("message") or ended.get("reason") or "")
    return str(status.get("message") or status.get("reason") or "")


def _waits(status: Body) -> str:
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    container: Body = next(iter(status.get("containerStatuses") or ()), {})
    reason, message = _waiting(conditions, container)
    return f"{reason}: {message}".strip(": ")


def _waiting(conditions: Mapping[str, Body], container: Body) -> tuple[str, str]:
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False":
        return str(scheduled.get("reason", "")), str(scheduled.get("message", ""))
    waiting = (container.get("state") or {}).get("waiting") or {}
    return str(waiting.get("reason", "")), str(waiting.get("message", ""))


def _termination(container: Body) -> Termination | None:
    now = (container.get("state") or {}).get("terminated")
    ended = now or (container.get("lastState") or {}).get("terminated")
    if not ended or not ended.get("finishedAt"):
        return None
    return Termination(
        exit_code=int(ended.get("exitCode", 0)),
        reason=str(ended.get("reason", "")),
        message=str(ended.get("message", "")),
        at=time_of(ended["finishedAt"]),
    )


def _is_gated(spec: Body) -> bool:
    return any(each["name"] == GANG_GATE for each in spec.get("schedulingGates") or ())


def _selected_hostname(spec: Body) -> str:
    return str((spec.get("nodeSelector") or {}).get("kubernetes.io/hostname", ""))


def _gpus(spec: Body) -> int:
    """Count the GPUs that a pod's containers request."""
    limits = ((each.get("resources") or {}).get("limits") or {} for each in _containers(spec))
    asked = (str(each.get(GPU_RESOURCE, "")) for each in limits)
    return sum(int(each) for each in asked if each.isdecimal())


def _containers(spec: Body) -> Iterable[Body]:
    return spec.get("containers") or ()


def _affinity_nodes(spec: Body) -> frozenset[str]:
    """Return the machines that a pod's affinity names, as ``render.pod`` writes it.

    Empty once the pod is bound: a large set names thousands, and each of its pods would store them.
    """
    if spec.get("nodeName"):
        return frozenset()
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return frozenset(
        name
        for term in required.get("nodeSelectorTerms") or ()
        for field in term.get("matchFields") or ()
        if field["key"] == "metadata.name"
        for name in field["values"]
    )


def _eviction(status: Body, conditions: Mapping[str, Body]) -> Termination | None:
    """Read the end of a whole pod, as by eviction: its containers may report none."""
    if status.get("phase") != "Failed":
        return None
    last = conditions.get("Ready", {}).get("lastTransitionTime") or status.get("startTime")
    if last is None:
        return None
    return Termination(
        exit_code=EVICTED_EXIT_CODE,
        reason=str(status.get("reason", "")),
        message=str(status.get("message", "")),
        at=time_of(last),
    )


def _since(
    conditions: Mapping[str, Body], type_: str, *, status: str, reason: str | None = None
) -> datetime | None:
    """Return since when a condition has a status and reason; None if it has others."""
    found = conditions.get(type_, {})
    if found.get("status") != status or reason not in {None, found.get("reason")}:
        return None
    return optional_time(found.get("lastTransitionTime"))
