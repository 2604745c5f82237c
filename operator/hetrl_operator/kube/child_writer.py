"""Writes of a job's objects: the first one creates, and later ones only change the job's own.

A creation fails if the name is taken, so that no object of another owner is changed, adopted or
deleted with the job. ``write_results`` reads responses, and ``name_conflict`` checks owners.
"""

from collections.abc import Mapping
from typing import Any

from hetrl_operator.kube.client import APPLY, JSON_PATCH, MERGE, METADATA_ONLY, KubernetesApi, Reply
from hetrl_operator.kube.managed_fields import JsonPatch, created_as_applied, is_object
from hetrl_operator.kube.paths import collection
from hetrl_operator.kube.write_results import Done, Outcome, Refused, outcome_of
from hetrl_operator.model.labels import FIELD_MANAGER, FIELDS_HASH
from hetrl_operator.model.name_conflict import name_conflict, taken
from hetrl_operator.model.observed import ChildSeen, JobSeen
from hetrl_operator.model.parse import child_seen

Manifest = Mapping[str, Any]
_CONFLICT = 409
_MANAGER = {"fieldManager": FIELD_MANAGER}


class ChildWriter:
    """The writer of jobs' objects: it creates them, and updates those that a job owns."""

    def __init__(self, api: KubernetesApi) -> None:
        """Write through this connection."""
        self._api = api

    async def write(self, job: JobSeen, manifest: Manifest, known: ChildSeen | None) -> Outcome:
        """Create an object, or update it.

        Args:
            job: the owner.
            manifest: the desired object.
            known: the object as the watches show it, owned by the job; None where they show none.
        """
        if known is not None:
            return await self._update(manifest, known)
        # Fields that the API server does not know must be an error, as in server-side apply.
        query = {**_MANAGER, "fieldValidation": "Strict"}
        reply = await self._api.request("POST", _collection(manifest), query=query, body=manifest)
        if not _exists_already(reply):
            return outcome_of(reply, kind=_name(manifest))
        return await self._write_existing(job, manifest)

    async def _write_existing(self, job: JobSeen, manifest: Manifest) -> Outcome:
        """Update an object that the watches do not show, if it is the job's.

        This holds for every Secret, as none is watched; after a crash right after a write; and for
        an object whose labels a user has removed.
        """
        reply = await self._metadata(manifest)
        if not reply.is_success:
            return _unread(reply, manifest)
        found = child_seen(manifest["kind"], reply.body)
        conflict = name_conflict(found, job)
        if conflict:
            return Refused(reason=conflict.reason, message=conflict.message)
        return await self._update(manifest, found)

    async def _update(self, manifest: Manifest, known: ChildSeen) -> Outcome:
        if manifest["kind"] == "Secret":
            return await self._replace_data(manifest, known)
        if _may_drop_fields(manifest, known):
            outcome = await self._count_as_applied(manifest)
            if not isinstance(outcome, Done):
                return outcome
        metadata = {**manifest["metadata"], "uid": known.uid}
        reply = await self._api.request(
            "PATCH",
            _path(manifest),
            query={**_MANAGER, "force": "true"},
            body={**manifest, "metadata": metadata},
            content_type=APPLY,
        )
        return outcome_of(reply, kind=_name(manifest))

    async def _replace_data(self, manifest: Manifest, known: ChildSeen) -> Outcome:
        """Replace all keys of a Secret: those of another set of certificates must not remain."""
        data = {"op": "add", "path": "/data", "value": manifest["data"]}
        return await self._patch(manifest, [*is_object(known.uid), data])

    async def _count_as_applied(self, manifest: Manifest) -> Outcome:
        """Let the next apply remove fields that the object was created with."""
        reply = await self._metadata(manifest)
        if not reply.is_success:
            return outcome_of(reply, kind=_name(manifest))
        patch = created_as_applied(reply.body["metadata"])
        return await self._patch(manifest, patch) if patch else Done(object={})

    async def _patch(self, manifest: Manifest, patch: JsonPatch) -> Outcome:
        reply = await self._api.request(
            "PATCH", _path(manifest), query=_MANAGER, body=patch, content_type=JSON_PATCH
        )
        return outcome_of(reply, kind=_name(manifest), is_json_patch=True)

    async def _metadata(self, manifest: Manifest) -> Reply:
        """Read the metadata of an object by an empty patch that is not stored.

        The operator has no right to read a Secret, and no object's content is needed.
        """
        return await self._api.request(
            "PATCH",
            _path(manifest),
            query={**_MANAGER, "dryRun": "All"},
            body={},
            content_type=MERGE,
            accept=METADATA_ONLY,
        )


def _may_drop_fields(manifest: Manifest, known: ChildSeen) -> bool:
    """Tell whether an object may have fields from its creation that the manifest lacks.

    Objects of earlier releases were created by server-side apply, which needs no help.
    """
    wanted = (manifest["metadata"].get("annotations") or {}).get(FIELDS_HASH)
    return known.fields_hash not in {"", wanted}


def _unread(reply: Reply, manifest: Manifest) -> Outcome:
    """Return the outcome if the owner of an existing object could not be read."""
    outcome = outcome_of(reply, kind=_name(manifest))
    if not isinstance(outcome, Refused):
        return outcome
    conflict = taken(_name(manifest), f"its owner cannot be read ({reply.message})")
    return Refused(reason=conflict.reason, message=conflict.message)


def _exists_already(reply: Reply) -> bool:
    return reply.status == _CONFLICT and reply.body.get("reason") == "AlreadyExists"


def _collection(manifest: Manifest) -> str:
    return collection(manifest["kind"], manifest["metadata"]["namespace"])


def _path(manifest: Manifest) -> str:
    return f"{_collection(manifest)}/{manifest['metadata']['name']}"


def _name(manifest: Manifest) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']}"
