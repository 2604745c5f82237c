"""The only writer: it turns actions into requests, and ``write_results`` reads the responses.

``child_writer`` writes the objects of a job, and ``job_writer`` its finalizer and status. Deletions
have a UID precondition. Conflicts, throttling and refusals are expected and returned as values.
"""

import base64
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from hetrl_operator.kube.child_writer import ChildWriter
from hetrl_operator.kube.client import APPLY, MERGE, STRATEGIC_MERGE, KubernetesApi
from hetrl_operator.kube.job_writer import JobWriter
from hetrl_operator.kube.paths import collection
from hetrl_operator.kube.write_results import (
    Done,
    Outcome,
    TryAgain,
    outcome_of,
    outcome_of_reading,
)
from hetrl_operator.model.actions import (
    AddFinalizer,
    AnnotatePlan,
    Apply,
    Delete,
    DeleteJob,
    Event,
    IssueCertificates,
    PriorityClass,
    RemoveFinalizer,
    RemoveSchedulingGate,
    RequeueWorkload,
    SubmitWorkload,
    UpdateWorkloadStatus,
    WriteStatus,
)
from hetrl_operator.model.kueue import api as kueue_api
from hetrl_operator.model.labels import API_VERSION, FIELD_MANAGER, GANG_GATE, of_child
from hetrl_operator.model.observed import ChildSeen, JobSeen
from hetrl_operator.render import tls
from hetrl_operator.render.deployment import owner_of

_NOT_FOUND, _CONFLICT = 404, 409
_Queueing = SubmitWorkload | RequeueWorkload | UpdateWorkloadStatus
_Plain = (
    Apply
    | AnnotatePlan
    | Delete
    | IssueCertificates
    | RemoveSchedulingGate
    | WriteStatus
    | AddFinalizer
    | RemoveFinalizer
    | DeleteJob
)
Writable = _Plain | _Queueing
_NOT_OURS = TryAgain(message="another replica may lead by now", after_seconds=1.0)


class Writer:
    """The writer of actions to the API server."""

    def __init__(self, api: KubernetesApi, *, may_write: Callable[[], bool]) -> None:
        """Write through this connection while this replica leads."""
        self._api = api
        self._may_write = may_write
        self._children, self._jobs = ChildWriter(api), JobWriter(api)

    async def apply(self, job: JobSeen, action: Writable, child: ChildSeen | None) -> Outcome:
        """Apply one action.

        Args:
            job: the action's job.
            action: the action.
            child: the observed object of an ``Apply``, if it exists.
        """
        if not self._may_write():
            return _NOT_OURS
        if isinstance(action, SubmitWorkload | RequeueWorkload | UpdateWorkloadStatus):
            return await self._write_workload(job, action)
        return await self._apply(job, action, child)

    async def _apply(self, job: JobSeen, action: _Plain, child: ChildSeen | None) -> Outcome:
        match action:
            case Apply():
                return await self._children.write(job, action.manifest, child)
            case AnnotatePlan():
                return await self._annotate(job, action)
            case IssueCertificates():
                return await self._children.write(job, _secret(job, action), None)
            case Delete() | DeleteJob():
                return await self._delete(job, action)
            case RemoveSchedulingGate():
                return await self._remove_gate(job, action)
            case AddFinalizer() | RemoveFinalizer() | WriteStatus():
                return await self._jobs.write(job, action)

    async def announce(self, job: JobSeen, event: Event) -> Outcome:
        """Write an Event on the job."""
        if not self._may_write():
            return _NOT_OURS
        body = _event(job, event, now=datetime.now(UTC))
        path = collection("Event", job.namespace)
        return outcome_of(await self._api.request("POST", path, body=body), kind="Event")

    async def _annotate(self, job: JobSeen, action: AnnotatePlan) -> Outcome:
        """Change these annotations and nothing else: the plan may be a user's."""
        body = {"metadata": {"uid": action.uid, "annotations": dict(action.annotations)}}
        path = f"{collection('HetRLPlan', job.namespace)}/{action.name}"
        reply = await self._api.request(
            "PATCH", path, query={"fieldManager": FIELD_MANAGER}, body=body, content_type=MERGE
        )
        if reply.status in {_NOT_FOUND, _CONFLICT}:
            return Done(object={}, is_missing=True)
        return outcome_of(reply, kind=f"HetRLPlan {action.name}")

    async def _delete(self, job: JobSeen, action: Delete | DeleteJob) -> Outcome:
        """Delete one object, or the job itself."""
        kind, name, uid, is_forced = "HetRLJob", job.name, job.uid, False
        if isinstance(action, Delete):
            kind, name, uid = action.kind, action.name, action.uid
            is_forced = action.is_forced
        path = f"{collection(kind, job.namespace)}/{name}"
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
            **({"gracePeriodSeconds": 0} if is_forced else {}),
        }
        reply = await self._api.request("DELETE", path, body=options)
        if reply.status == _NOT_FOUND:
            return Done(object={}, is_missing=True)
        return outcome_of(reply, kind=f"{kind} {name}")

    async def _remove_gate(self, job: JobSeen, action: RemoveSchedulingGate) -> Outcome:
        path = f"{collection('Pod', job.namespace)}/{action.pod}"
        spec: dict[str, Any] = {"schedulingGates": [{"$patch": "delete", "name": GANG_GATE}]}
        if action.hostname:
            spec["nodeSelector"] = {"kubernetes.io/hostname": action.hostname}
        body = {"metadata": {"uid": action.uid}, "spec": spec}
        reply = await self._api.request(
            "PATCH",
            path,
            query={"fieldManager": FIELD_MANAGER},
            body=body,
            content_type=STRATEGIC_MERGE,
        )
        return outcome_of(reply, kind=f"Pod {action.pod}")

    async def _write_workload(self, job: JobSeen, action: _Queueing) -> Outcome:
        match action:
            case SubmitWorkload():
                return await self._submit(job, action)
            case RequeueWorkload():
                return await self._requeue(job, action)
            case UpdateWorkloadStatus():
                return await self._update_workload(job, action)

    async def _submit(self, job: JobSeen, action: SubmitWorkload) -> Outcome:
        """Create a Workload with the value of its priority class, which Kueue wants beside it."""
        if action.priority is None:
            return await self._children.write(job, action.manifest, None)
        group, kind = _PRIORITIES[action.priority.is_kueues]
        reply = await self._api.request("GET", _priority_path(action.priority))
        if not reply.is_success:
            return outcome_of_reading(reply, kind=f"{kind} {action.priority.name}")
        spec = {
            **action.manifest["spec"],
            "priorityClassRef": {"group": group, "kind": kind, "name": action.priority.name},
            "priority": reply.body["value"],
        }
        return await self._children.write(job, {**action.manifest, "spec": spec}, None)

    async def _requeue(self, job: JobSeen, action: RequeueWorkload) -> Outcome:
        body = {
            "metadata": {"resourceVersion": action.resource_version},
            "status": {"admission": None, "conditions": list(action.conditions)},
        }
        path = f"{collection('Workload', job.namespace)}/{action.name}/status"
        reply = await self._api.request(
            "PATCH", path, query={"fieldManager": FIELD_MANAGER}, body=body, content_type=MERGE
        )
        return outcome_of(reply, kind=f"Workload {action.name}")

    async def _update_workload(self, job: JobSeen, action: UpdateWorkloadStatus) -> Outcome:
        body = {
            "apiVersion": kueue_api.API_VERSION,
            "kind": "Workload",
            "metadata": {"name": action.name, "namespace": job.namespace, "uid": action.uid},
            "status": {"conditions": list(action.conditions)},
        }
        path = f"{collection('Workload', job.namespace)}/{action.name}/status"
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        reply = await self._api.request("PATCH", path, query=query, body=body, content_type=APPLY)
        return outcome_of(reply, kind=f"Workload {action.name}")


_PRIORITIES = {
    True: (kueue_api.GROUP, "WorkloadPriorityClass"),
    False: ("scheduling.k8s.io", "PriorityClass"),
}


def _priority_path(priority: PriorityClass) -> str:
    if priority.is_kueues:
        return f"{kueue_api.PATH}/workloadpriorityclasses/{priority.name}"
    return f"/apis/scheduling.k8s.io/v1/priorityclasses/{priority.name}"


def _secret(job: JobSeen, action: IssueCertificates) -> dict[str, Any]:
    issued = tls.issue(
        seed=secrets.token_bytes(32),
        job=job.name,
        dns_names=action.dns_names,
        now=datetime.now(UTC),
    )
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": action.secret,
            "namespace": job.namespace,
            "labels": of_child(job.name, job.uid),
            "ownerReferences": [owner_of(job)],
        },
        "type": "Opaque",
        "data": {name: base64.b64encode(text).decode() for name, text in issued.files().items()},
    }


def _event(job: JobSeen, event: Event, *, now: datetime) -> dict[str, Any]:
    at = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{job.name}.{uuid4().hex[:16]}", "namespace": job.namespace},
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": "HetRLJob",
            "name": job.name,
            "namespace": job.namespace,
            "uid": job.uid,
        },
        "type": "Warning" if event.is_warning else "Normal",
        "reason": event.reason,
        # The API server accepts 1,024 bytes.
        "message": event.message.encode()[:1000].decode(errors="ignore"),
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
        "source": {"component": FIELD_MANAGER},
        "reportingComponent": FIELD_MANAGER,
    }
