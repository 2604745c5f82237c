"""Facts about HetRL on a cluster: read once, judged by other modules.

A fact that the user may not read stays ``None``; ``unseen`` names it.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from hetrl_cli.cluster.connection import Connection, Object, Refused
from hetrl_operator.model.kueue import api as kueue_api
from hetrl_operator.model.labels import API_VERSION, GROUP

Objects = tuple[Object, ...]

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
WANTED_RIGHTS = (
    (GROUP, "hetrljobs", "create"),
    (GROUP, "hetrljobs", "patch"),
    (GROUP, "hetrljobs", "list"),
    ("", "pods", "list"),
    ("", "events", "list"),
)
"""Group, resource and verb of what the commands on jobs ask for."""

_PUBLISHED_SECONDS = 15.0
_AGAIN_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """One job and what belongs to it."""

    job: Object
    pods: Objects = ()
    claims: Objects = ()
    """Claims of its namespace."""

    queues: Objects | Refused = ()
    """Kueue's LocalQueues of its namespace, or why they cannot be seen; not asked without label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A cluster at one moment."""

    server_time: datetime
    asked_at: datetime
    """By this machine's clock."""

    fields: frozenset[str] | Refused | None = frozenset()
    """Fields of the spec that the cluster's HetRLJob has, dotted, or why they cannot be seen;
    ``None`` without HetRLJobs."""

    missing_rights: tuple[str, ...] = ()
    nodes: Objects | None = None
    topologies: Objects = ()
    leases: Objects | None = None
    storage_classes: Objects | None = None
    operators: Objects | None = None
    """Pods of the operator, wherever they are."""

    job: JobFacts | None = None
    unseen: tuple[str, ...] = field(default=())
    """Facts that could not be read, and why."""


def facts_of(connection: Connection, *, name: str | None) -> Facts:
    """Read facts about HetRL on a cluster, and about one of its jobs.

    Raises:
        ClickException: it does not answer, or has no such job.
    """
    unseen: list[str] = []

    def items(path: str, what: str) -> Objects | None:
        found = connection.try_request(path)
        if isinstance(found, Refused):
            unseen.append(f"{what}: {found.said}")
            return None
        return tuple(found["items"])

    fields = _fields(connection)
    if isinstance(fields, Refused):
        unseen.append(f"fields of HetRLJob: {fields.said}")
    job = _job(connection, name) if name and fields is not None else None
    if job and isinstance(job.queues, Refused) and job.queues.status != HTTPStatus.NOT_FOUND:
        unseen.append(f"queues: {job.queues.said}")
    began = time.time()
    server_time = connection.server_time()
    return Facts(
        server_time=server_time,
        asked_at=datetime.fromtimestamp((began + time.time()) / 2, UTC),
        fields=fields,
        missing_rights=tuple(_missing_rights(connection)),
        nodes=items("/api/v1/nodes", "nodes"),
        topologies=_topologies(connection) if fields is not None else (),
        leases=items(LEASES, "node leases"),
        storage_classes=items("/apis/storage.k8s.io/v1/storageclasses", "storage classes"),
        operators=items(
            "/api/v1/pods?labelSelector=app.kubernetes.io/name=hetrl-operator",
            "the operator's pods",
        ),
        job=job,
        unseen=tuple(unseen),
    )


def _fields(connection: Connection) -> frozenset[str] | Refused | None:
    """Return the fields of a job's spec that the cluster knows, from its OpenAPI schema."""
    # An API server serves new kinds at once, but publishes their schemas some seconds later.
    deadline = time.monotonic() + _PUBLISHED_SECONDS
    while isinstance(found := _published(connection), Refused):
        if not _is_served(connection):
            return None
        if time.monotonic() > deadline:
            return found
        time.sleep(_AGAIN_SECONDS)
    return found


def _is_served(connection: Connection) -> bool:
    kinds = connection.try_request(f"/apis/{API_VERSION}")
    if isinstance(kinds, Refused):
        return kinds.status != HTTPStatus.NOT_FOUND
    return any(each["kind"] == "HetRLJob" for each in kinds["resources"])


def _published(connection: Connection) -> frozenset[str] | Refused:
    found = connection.try_request(f"/openapi/v3/apis/{API_VERSION}")
    if isinstance(found, Refused):
        return found
    schemas = found.get("components", {}).get("schemas", {})
    jobs = [
        schema
        for schema in schemas.values()
        if any(
            kind.get("kind") == "HetRLJob"
            for kind in schema.get("x-kubernetes-group-version-kind", ())
        )
    ]
    if not jobs:
        return Refused(status=HTTPStatus.NOT_FOUND, said="its schema is not published")
    return frozenset(dotted(jobs[0]["properties"]["spec"], "spec"))


def dotted(schema: Any, path: str) -> Iterable[str]:
    """Yield the path of every field of a schema, those of list items too."""
    items = schema.get("items")
    if isinstance(items, dict):
        yield from dotted(items, f"{path}[]")
    for name, inner in (schema.get("properties") or {}).items():
        yield f"{path}.{name}"
        yield from dotted(inner, f"{path}.{name}")


def _missing_rights(connection: Connection) -> Iterable[str]:
    for group, resource, verb in WANTED_RIGHTS:
        attributes = {
            "namespace": connection.namespace,
            "group": group,
            "resource": resource,
            "verb": verb,
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        found = connection.try_request(REVIEW, body=body)
        if not isinstance(found, Refused) and not found.get("status", {}).get("allowed"):
            yield f"{verb} {resource}"


def _topologies(connection: Connection) -> Objects:
    found = connection.try_request(f"/apis/{API_VERSION}/hetrltopologies")
    return () if isinstance(found, Refused) else tuple(found["items"])


def _job(connection: Connection, name: str) -> JobFacts:
    job = connection.job(name)
    claims = connection.try_request(
        f"/api/v1/namespaces/{connection.namespace}/persistentvolumeclaims"
    )
    return JobFacts(
        job=job,
        pods=tuple(connection.pods(name)),
        claims=() if isinstance(claims, Refused) else tuple(claims["items"]),
        queues=_queues(connection, job),
    )


def _queues(connection: Connection, job: Object) -> Objects | Refused:
    if kueue_api.QUEUE_LABEL not in (job["metadata"].get("labels") or {}):
        return ()
    found = connection.try_request(
        f"{kueue_api.PATH}/namespaces/{connection.namespace}/localqueues"
    )
    return found if isinstance(found, Refused) else tuple(found["items"])
