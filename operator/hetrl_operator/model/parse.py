"""Readers of Kubernetes objects: their JSON becomes the values that decisions use.

Each function reads one object as the API server returns it, and keeps only the fields in use, so
that thousands of objects fit into memory. ``parse_spec`` reads a job's spec.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

from pydantic import ValidationError

from hetrl_api.fleet.departure import notices_among
from hetrl_api.fleet.fleet import GPU_RESOURCE
from hetrl_api.job.status import JobStatus
from hetrl_api.load import parse
from hetrl_api.plan.plan import HetRLPlan
from hetrl_api.plan.to_core import to_plan
from hetrl_api.validation.errors import InvalidObjectError
from hetrl_core.task import Role
from hetrl_operator.model.containers import others_trouble, own_container
from hetrl_operator.model.kueue.api import PRIORITY_LABEL, QUEUE_LABEL
from hetrl_operator.model.labels import (
    ACTIVE_FOR,
    ANSWERED,
    COMPONENT,
    FIELDS_HASH,
    FLEET_HASH,
    GANG_GATE,
    IDENTITY,
    JOB_NAME,
    JOB_UID,
    LEFT_OUT,
    PLAN_KEY,
    PLANNED_FOR,
    POD_SET,
    PREFLIGHT,
    PREFLIGHT_HASH,
    REPLACED_AT,
    REPLACES,
    REPLACES_BECAUSE,
    RESTART_HASH,
    ROLE,
    SPEC_HASH,
    is_plan_name,
)
from hetrl_operator.model.observed import (
    ChildSeen,
    JobSeen,
    PodSeen,
    PreflightPodSeen,
    ProgressSeen,
    Termination,
)
from hetrl_operator.model.parse_spec import parse_spec
from hetrl_operator.model.plain import plain
from hetrl_operator.model.planning import PlanSeen, UnreadablePlan

Body = Mapping[str, Any]
JobKey = tuple[str, str]
"""Namespace and name of a HetRLJob."""

EVICTED_EXIT_CODE = 137
"""Exit code of an evicted pod: that of SIGKILL, since its containers report none."""


def key_of_job(body: Body) -> JobKey:
    """Return the key of a HetRLJob."""
    return body["metadata"]["namespace"], body["metadata"]["name"]


def key_of_owner(body: Body) -> JobKey | None:
    """Return the key of the job that a child belongs to, by its label."""
    name = (body["metadata"].get("labels") or {}).get(JOB_NAME)
    return (body["metadata"]["namespace"], name) if name else None


def job_seen(body: Body) -> JobSeen:
    """Read a HetRLJob; a spec that cannot be worked on becomes a problem in words."""
    metadata = body["metadata"]
    labels = metadata.get("labels") or {}
    parsed, problem = parse_spec(body)
    return JobSeen(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        version=metadata.get("resourceVersion", ""),
        generation=int(metadata.get("generation", 0)),
        created_at=_time(metadata["creationTimestamp"]),
        deleted_at=_optional_time(metadata.get("deletionTimestamp")),
        finalizers=tuple(metadata.get("finalizers") or ()),
        parsed=parsed,
        problem=problem,
        status=_status(body.get("status") or {}),
        queue=labels.get(QUEUE_LABEL, ""),
        queue_priority=labels.get(PRIORITY_LABEL, ""),
    )


def child_seen(kind: str, body: Body) -> ChildSeen:
    """Read the metadata of an object that has the name of a job's child."""
    metadata = body["metadata"]
    annotations = metadata.get("annotations") or {}
    controller = _controller(metadata)
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


def _controller(metadata: Body) -> Body | None:
    """Return the owner reference of an object's controller."""
    owners: Sequence[Body] = metadata.get("ownerReferences") or ()
    return next((each for each in owners if each.get("controller")), None)


def plan_seen(body: Body) -> PlanSeen | UnreadablePlan | None:
    """Read a HetRLPlan of any author; None if it is being deleted."""
    metadata = body["metadata"]
    if "deletionTimestamp" in metadata:
        return None
    name, uid = metadata["name"], metadata["uid"]
    try:
        written = parse(HetRLPlan, {**plain(body), "metadata": {"name": name}})
        plan = to_plan(written.spec)
    except (InvalidObjectError, ValueError) as error:
        return UnreadablePlan(name=name, uid=uid, problem=str(error).replace("\n", "; "))
    annotations = metadata.get("annotations") or {}
    made_for = _made_for(metadata)
    read = annotations if made_for else {}
    return PlanSeen(
        name=name,
        uid=uid,
        made_for=made_for,
        planned_for=read.get(PLANNED_FOR) or read.get(ANSWERED, ""),
        key=read.get(PLAN_KEY) or sha256(uid.encode()).hexdigest()[:32],
        left_out=read.get(LEFT_OUT, ""),
        replaces=read.get(REPLACES, ""),
        replaces_because=read.get(REPLACES_BECAUSE, ""),
        fleet=read.get(FLEET_HASH, ""),
        plan=plan,
        created_at=_time(metadata["creationTimestamp"]),
        active_for=annotations.get(ACTIVE_FOR, ""),
        replaced_at=_replaced_at(metadata) if made_for else None,
    )


def key_of_plan(body: Body) -> JobKey:
    """Return the key of the job that a plan was made for or is active for; else an empty name."""
    metadata = body["metadata"]
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    name = labels.get(JOB_NAME) if _made_for(metadata) else annotations.get(ACTIVE_FOR)
    return metadata["namespace"], name or ""


def _replaced_at(metadata: Body) -> datetime | None:
    annotations = metadata["annotations"]
    if PLANNED_FOR in annotations:
        return None
    try:
        return _time(annotations[REPLACED_AT])
    except (KeyError, ValueError):
        return _time(metadata["creationTimestamp"])


def _made_for(metadata: Body) -> str:
    """Return the uid of the job that the operator made a plan for.

    A copy that a user has edited carries our labels and annotations too, but not the name that
    follows from them, or not the owner reference. It is the user's: it is never deleted.
    """
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    controller = _controller(metadata)
    if controller is None or not {PLANNED_FOR, ANSWERED} & annotations.keys():
        return ""
    uid, job, key = labels.get(JOB_UID, ""), labels.get(JOB_NAME, ""), annotations.get(PLAN_KEY, "")
    is_ours = controller["uid"] == uid and is_plan_name(metadata["name"], job, key)
    return uid if is_ours else ""


def pod_seen(body: Body) -> PodSeen | None:
    """Read a pod of a job; None where it does not carry our labels."""
    metadata, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    labels = metadata.get("labels") or {}
    ordinal = metadata["name"].rpartition("-")[2]
    # A pod with our labels that belongs to no StatefulSet is not ours.
    if ROLE not in labels or POD_SET not in labels or not ordinal.isdecimal():
        return None
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    role = Role(labels[ROLE])
    container = own_container(status, role)
    reason, message = _waiting(conditions, container)
    is_ready = conditions.get("Ready", {}).get("status") == "True"
    return PodSeen(
        name=metadata["name"],
        uid=metadata["uid"],
        pod_set=labels[POD_SET],
        role=role,
        ordinal=int(ordinal),
        created_at=_time(metadata["creationTimestamp"]),
        node=spec.get("nodeName") or "",
        nominated_node=status.get("nominatedNodeName") or "",
        gpus=_gpus(spec),
        scheduled_at=_since(conditions, "PodScheduled", status="True"),
        unschedulable_since=_since(
            conditions, "PodScheduled", status="False", reason="Unschedulable"
        ),
        # The API server writes the time at which the grace ends.
        deletion_due_at=_optional_time(metadata.get("deletionTimestamp")),
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


def preflight_pod_seen(body: Body) -> PreflightPodSeen | None:
    """Read the pod of a preflight; None for another pod."""
    metadata, status = body["metadata"], body.get("status") or {}
    if (metadata.get("labels") or {}).get(COMPONENT) != PREFLIGHT:
        return None
    controller = _controller(metadata)
    has_ended = status.get("phase") in {"Succeeded", "Failed"}
    return PreflightPodSeen(
        name=metadata["name"],
        uid=metadata["uid"],
        owner_uid=controller["uid"] if controller else "",
        digest=(metadata.get("annotations") or {}).get(PREFLIGHT_HASH, ""),
        created_at=_time(metadata["creationTimestamp"]),
        node=(body.get("spec") or {}).get("nodeName") or "",
        deletion_due_at=_optional_time(metadata.get("deletionTimestamp")),
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


_NOTICE_CHARS = 1024


def progress_seen(report: Body, *, at: datetime) -> ProgressSeen:
    """Read the protocol's ``Progress`` message from JSON.

    Raises:
        ValueError: a field is missing or has the wrong type.
    """
    try:
        return ProgressSeen(
            step=int(report["step"]),
            total_steps=int(report["total_steps"]),
            policy_version=int(report.get("version", 0)),
            samples_per_second=float(report.get("samples_per_second", 0)),
            staleness_p95=float(report.get("staleness_p95", 0)),
            reward=float(report.get("reward_mean", 0)),
            eta_seconds=float(report.get("eta_seconds", 0)),
            received_at=at,
            finished=bool(report.get("finished", False)),
            outcome=str(report.get("outcome", "")),
            reason=str(report.get("reason", "")),
            message=str(report.get("message", "")),
            waiting_for=str(report.get("waiting_for", "")),
            notices=tuple(str(each)[:_NOTICE_CHARS] for each in report.get("notices", ())),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a progress report: {error!r}") from error


def slim_node(body: Body) -> Body:
    """Reduce a Node to what planning reads: labels, taints, GPUs, cordon and departure notices."""
    metadata, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    conditions = [
        {
            "type": each["type"],
            "status": each["status"],
            "lastTransitionTime": each.get("lastTransitionTime"),
        }
        for each in status.get("conditions") or ()
        if each["type"] == "Ready"
    ]
    gpus = (status.get("allocatable") or {}).get("nvidia.com/gpu")
    return {
        "metadata": {
            "name": metadata["name"],
            "labels": dict(metadata.get("labels") or {}),
            "annotations": notices_among(metadata.get("annotations") or {}),
            "deletionTimestamp": metadata.get("deletionTimestamp"),
        },
        "spec": {
            "unschedulable": bool(spec.get("unschedulable")),
            "taints": [
                {"key": each["key"], "value": each.get("value", ""), "effect": each["effect"]}
                for each in spec.get("taints") or ()
            ],
        },
        "status": {
            "allocatable": {} if gpus is None else {"nvidia.com/gpu": gpus},
            "conditions": conditions,
        },
    }


def _status(written: Body) -> JobStatus:
    """Read a status; an unreadable one, as of another release, counts as empty."""
    try:
        return JobStatus.model_validate_json(json.dumps(plain(written)))
    except ValidationError:
        return JobStatus()


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
        at=_time(ended["finishedAt"]),
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
        at=_time(last),
    )


def _since(
    conditions: Mapping[str, Body], type_: str, *, status: str, reason: str | None = None
) -> datetime | None:
    """Return since when a condition has a status and reason; None if it has others."""
    found = conditions.get(type_, {})
    if found.get("status") != status or reason not in {None, found.get("reason")}:
        return None
    return _optional_time(found.get("lastTransitionTime"))


def lost_since(node: Body) -> datetime | None:
    """Return since when a slim Node has not answered; None if it answers."""
    for each in node["status"]["conditions"]:
        if each["type"] == "Ready" and each["status"] != "True":
            return _optional_time(each["lastTransitionTime"])
    return None


def _optional_time(text: str | None) -> datetime | None:
    return _time(text) if text else None


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
