"""Writes of a HetRLJob itself: its finalizer and its status.

What is removed is removed by a JSON patch, whoever has written it: server-side apply of a list or
object without it leaves what another manager owns as well.
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
    """Holds jobs, lets them go, and tells their status."""

    def __init__(self, api: KubernetesApi) -> None:
        """Write through this connection."""
        self._api = api

    async def write(
        self, job: JobSeen, action: AddFinalizer | RemoveFinalizer | WriteStatus
    ) -> Outcome:
        """Carry out an action on a job itself."""
        match action:
            case AddFinalizer():
                return await self._hold(job)
            case RemoveFinalizer():
                return await self._let_go(job)
            case WriteStatus():
                return await self._write_status(job, action.status)

    async def _hold(self, job: JobSeen) -> Outcome:
        """Add our finalizer; the uid keeps the request from creating a job."""
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

    async def _let_go(self, job: JobSeen) -> Outcome:
        """Remove our finalizer, whoever has written it, and leave those of others.

        To apply a list without it removes it only while nobody else owns it, as whoever creates a
        job from an exported manifest does.
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
            # Usual: the job is gone with its last finalizer, and the watch is about to tell so.
            return Done(object={})
        if reply.is_success and FINALIZER in (reply.body["metadata"].get("finalizers") or ()):
            return TryAgain(message=f"{kind}: it is still there")
        return outcome_of(reply, kind=kind, is_json_patch=True)

    async def _write_status(self, job: JobSeen, status: JobStatus) -> Outcome:
        """Write a status over the one that it follows from, and over no other.

        Whoever starts on a list that is older than the end of a job would take its end back.
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
        """Remove what others own of a status, as whoever restores a job with its status does.

        Else a condition that holds no more would stay, and end a job that runs.
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
