"""Writes of a HetRLJob itself: its finalizer and its status.

A JSON patch removes values of any field manager. Server-side apply of a list or object without a
value keeps it if another manager owns it as well.
"""

from collections.abc import Mapping
from typing import Any

from hetrl_api.job.status import JobStatus
from hetrl_operator.kube.client import APPLY, JSON_PATCH, KubernetesApi
from hetrl_operator.kube.managed_fields import has_more, is_object
from hetrl_operator.kube.paths import collection
from hetrl_operator.kube.write_results import Done, Outcome, TryAgain, outcome_of
from hetrl_operator.model.actions import AddFinalizer, RemoveFinalizer, WriteStatus
from hetrl_operator.model.labels import API_VERSION, FIELD_MANAGER, FINALIZER
from hetrl_operator.model.observed import JobSeen

_NOT_FOUND = 404


class JobWriter:
    """The writer of jobs' finalizers and statuses."""

    def __init__(self, api: KubernetesApi) -> None:
        """Write through this connection."""
        self._api = api

    async def write(
        self, job: JobSeen, action: AddFinalizer | RemoveFinalizer | WriteStatus
    ) -> Outcome:
        """Apply an action on a job itself."""
        match action:
            case AddFinalizer():
                return await self._add_finalizer(job)
            case RemoveFinalizer():
                return await self._remove_finalizer(job)
            case WriteStatus():
                return await self._write_status(job, action.status)

    async def _add_finalizer(self, job: JobSeen) -> Outcome:
        """Add our finalizer; the uid prevents that the request creates a job."""
        body = {
            "apiVersion": API_VERSION,
            "kind": "HetRLJob",
            "metadata": {"name": job.name, "uid": job.uid, "finalizers": [FINALIZER]},
        }
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        reply = await self._api.request(
            "PATCH", _of_job(job), query=query, body=body, content_type=APPLY
        )
        return outcome_of(reply, kind=f"finalizer of {job.name}")

    async def _remove_finalizer(self, job: JobSeen) -> Outcome:
        """Remove our finalizer, also if another manager owns it, and keep all others.

        Server-side apply would not remove it if another manager owns it as well, as after a user
        has created the job from an exported manifest.
        """
        kind, place = f"finalizer of {job.name}", job.finalizers.index(FINALIZER)
        path = f"/metadata/finalizers/{place}"
        patch = [
            *is_object(job.uid),
            {"op": "test", "path": path, "value": FINALIZER},
            {"op": "remove", "path": path},
        ]
        query = {"fieldManager": FIELD_MANAGER}
        reply = await self._api.request(
            "PATCH", _of_job(job), query=query, body=patch, content_type=JSON_PATCH
        )
        if reply.status == _NOT_FOUND:
            # The usual case: the job is gone with its last finalizer; the watch will show that.
            return Done(object={})
        if reply.is_success and FINALIZER in (reply.body["metadata"].get("finalizers") or ()):
            return TryAgain(message=f"{kind}: it is still there")
        return outcome_of(reply, kind=kind, is_json_patch=True)

    async def _write_status(self, job: JobSeen, status: JobStatus) -> Outcome:
        """Write a status over the version that it was computed from, and over no other.

        Otherwise a replica that starts from a list older than a job's end would revert that end.
        """
        body = {
            "apiVersion": API_VERSION,
            "kind": "HetRLJob",
            "metadata": {
                "name": job.name,
                "namespace": job.namespace,
                "uid": job.uid,
                "resourceVersion": job.version,
            },
            "status": status.model_dump(mode="json", by_alias=True, exclude_none=True),
        }
        path = f"{_of_job(job)}/status"
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        reply = await self._api.request("PATCH", path, query=query, body=body, content_type=APPLY)
        if reply.is_success and has_more(reply.body.get("status"), body["status"]):
            return await self._replace_status(job, reply.body["metadata"], body["status"])
        return outcome_of(reply, kind=f"status of {job.name}")

    async def _replace_status(
        self, job: JobSeen, metadata: Mapping[str, Any], status: Any
    ) -> Outcome:
        """Remove fields of a status that other managers own, as after a restored backup.

        Otherwise an outdated condition would stay, and could end a running job.
        """
        version = metadata["resourceVersion"]
        patch = [
            *is_object(job.uid),
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
            {"op": "replace", "path": "/status", "value": status},
        ]
        path, query = f"{_of_job(job)}/status", {"fieldManager": FIELD_MANAGER}
        reply = await self._api.request(
            "PATCH", path, query=query, body=patch, content_type=JSON_PATCH
        )
        return outcome_of(reply, kind=f"status of {job.name}", is_json_patch=True)


def _of_job(job: JobSeen) -> str:
    return f"{collection('HetRLJob', job.namespace)}/{job.name}"
