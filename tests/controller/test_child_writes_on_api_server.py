"""Writes of a job's objects on a real API server: created, changed and untouched objects."""

import asyncio
from collections.abc import AsyncIterator, Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.cluster import Cluster
from hetrl_api.plan.to_core import from_plan
from hetrl_operator.kube.client import APPLY, KubernetesApi
from hetrl_operator.kube.paths import collection
from hetrl_operator.kube.write_results import Done, Refused, TryAgain
from hetrl_operator.kube.writer import Writer
from hetrl_operator.model.actions import Apply, IssueCertificates, Manifest
from hetrl_operator.model.labels import API_VERSION, FIELD_MANAGER, FIELDS_HASH, of_child
from hetrl_operator.model.observed import JobSeen
from hetrl_operator.model.parse import child_seen
from hetrl_operator.model.reasons import Reason
from hetrl_operator.render import children
from tests.controller.values import a_job, a_plan
from tests.controller.writers import (
    CHILD_KINDS,
    a_stored_job,
    connection,
    create,
    delete,
    deployment_of,
    name_written,
    read,
    write_of,
)

pytestmark = pytest.mark.cluster
pytest_plugins = ["e2e.cluster.fixtures"]

CRDS = Path(__file__).parents[2] / "crds"
WORKLOADS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: workloads.kueue.x-k8s.io}
spec:
  group: kueue.x-k8s.io
  names: {kind: Workload, listKind: WorkloadList, plural: workloads, singular: workload}
  scope: Namespaced
  versions:
    - name: v1beta2
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""
"""Kueue's kind without its rules, which do not matter here."""


@pytest.fixture(scope="module")
def kinds(api_server: Cluster) -> Cluster:
    api_server.add_kinds(CRDS)
    api_server.add_kinds(WORKLOADS)
    return api_server


@pytest.fixture
async def api(kinds: Cluster) -> AsyncIterator[KubernetesApi]:
    async with connection(kinds) as found:
        yield found


@pytest.fixture
def writer(api: KubernetesApi) -> Writer:
    return Writer(api, may_write=lambda: True)


async def seen(api: KubernetesApi, kind: str, name: str) -> Any:
    return child_seen(kind, await read(api, kind, name))


async def settled(api: KubernetesApi, kind: str, name: str) -> dict[str, Any]:
    """Return an object when its controller, if it has one, has written its status."""
    found = await read(api, kind, name)
    while kind == "StatefulSet" and "updateRevision" not in found["status"]:
        await asyncio.sleep(0.1)
        found = await read(api, kind, name)
    return found


async def written(api: KubernetesApi, writer: Writer, job: JobSeen, manifest: Manifest) -> Done:
    """Update a known object, again where its controller has written its status meanwhile."""
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    for _ in range(20):
        known = await seen(api, kind, name)
        outcome = await writer.apply(job, Apply(manifest=manifest), known)
        if not isinstance(outcome, TryAgain):
            break
    assert isinstance(outcome, Done), outcome
    return outcome


def foreign(kind: str, name: str, **metadata: Any) -> dict[str, Any]:
    """A user's object."""
    labels = {"app": "theirs"}
    content: dict[str, dict[str, Any]] = {
        "Secret": {"apiVersion": "v1", "data": {"ca.crt": "dGhlaXJz", "signing-key": "a2V5"}},
        "ConfigMap": {"apiVersion": "v1", "data": {"settings.yaml": "their: settings"}},
        "Service": {"apiVersion": "v1", "spec": {"selector": labels, "ports": [{"port": 80}]}},
        "StatefulSet": {
            "apiVersion": "apps/v1",
            "spec": {
                "serviceName": "theirs",
                "replicas": 0,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "theirs", "image": "theirs:1"}]},
                },
            },
        },
        "HetRLPlan": {"apiVersion": API_VERSION, "spec": _a_plan_spec()},
        "Workload": {"apiVersion": "kueue.x-k8s.io/v1beta2", "spec": {"queueName": "theirs"}},
    }
    metadata = {"name": name, "namespace": "default", "labels": labels, **metadata}
    return {"kind": kind, **content[kind], "metadata": metadata}


def _a_plan_spec() -> dict[str, Any]:
    written = from_plan(a_plan(machine="a100-7"))
    return written.model_dump(mode="json", by_alias=True, exclude_none=True)


@pytest.mark.parametrize("kind", CHILD_KINDS)
async def test_first_write_of_each_kind_leaves_foreign_objects_unchanged(
    api: KubernetesApi, writer: Writer, kind: str
) -> None:
    job = await a_stored_job(api, f"taken-{kind.lower()}")
    action = write_of(kind, job)
    name = name_written(action)
    await create(api, foreign(kind, name))
    before = await settled(api, kind, name)

    refused = await writer.apply(job, action, None)

    assert isinstance(refused, Refused)
    assert refused.reason == Reason.NAME_TAKEN
    assert f"{kind} {name} exists already" in refused.message
    assert await read(api, kind, name) == before

    await delete(api, kind, name)
    assert isinstance(await writer.apply(job, action, None), Done)
    assert (await seen(api, kind, name)).owner_uid == job.uid


@pytest.mark.parametrize("kind", CHILD_KINDS)
async def test_second_write_without_a_watch_updates_the_jobs_own_object(
    api: KubernetesApi, writer: Writer, kind: str
) -> None:
    job = await a_stored_job(api, f"own-{kind.lower()}")
    action = write_of(kind, job)
    first = await writer.apply(job, action, None)

    second = await writer.apply(job, action, None)

    assert isinstance(first, Done)
    assert isinstance(second, Done), second
    assert second.object["metadata"]["uid"] == first.object["metadata"]["uid"]


def owner(kind: str, name: str, uid: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "name": name, "uid": uid, **more}


@dataclass(frozen=True, slots=True)
class Existing:
    """An object with the labels of a job's child, and what is said of it."""

    owners: Callable[[JobSeen], list[dict[str, Any]]]
    reason: str
    said: str


EXISTING = {
    "labels": Existing(lambda _: [], Reason.NAME_TAKEN, "no owner reference"),
    "another": Existing(
        lambda _: [owner("HetRLJob", "another-a", "another-uid", controller=True)],
        Reason.NAME_TAKEN,
        "it belongs to HetRLJob another-a",
    ),
    "earlier": Existing(
        lambda job: [owner("HetRLJob", job.name, "earlier-uid", controller=True)],
        Reason.CONFLICT,
        "earlier HetRLJob",
    ),
    "guest": Existing(
        lambda job: [owner("HetRLJob", job.name, job.uid)],
        Reason.NAME_TAKEN,
        "no owner reference of this job",
    ),
}


@pytest.mark.parametrize("case", EXISTING)
@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
async def test_owner_of_an_existing_object_decides_whether_it_is_written(
    api: KubernetesApi, writer: Writer, kind: str, case: str
) -> None:
    existing = EXISTING[case]
    job = await a_stored_job(api, f"{case}-{kind.lower()}")
    action = write_of(kind, job)
    name = name_written(action)
    # The garbage collector deletes what an absent job owns; a finalizer keeps it here.
    metadata = {"ownerReferences": existing.owners(job), "finalizers": ["example.com/kept"]}
    labels = of_child(job.name, job.uid)
    await create(api, foreign(kind, name, labels=labels, **metadata))

    refused = await writer.apply(job, action, None)

    assert isinstance(refused, Refused)
    is_deleting = "being deleted" in refused.message
    assert refused.reason == (Reason.CONFLICT if is_deleting else existing.reason)
    assert is_deleting or existing.said in refused.message
    found = await read(api, kind, name)
    assert found["data"] == foreign(kind, name)["data"]
    owners = found["metadata"].get("ownerReferences", [])
    assert [each["uid"] for each in owners] == [each["uid"] for each in existing.owners(job)]


async def test_known_object_that_was_replaced_by_another_is_not_written(
    api: KubernetesApi, writer: Writer
) -> None:
    job = await a_stored_job(api, "replaced")
    action = write_of("ConfigMap", job)
    name = name_written(action)
    await writer.apply(job, action, None)
    known = await seen(api, "ConfigMap", name)
    await delete(api, "ConfigMap", name)
    before = await create(api, foreign("ConfigMap", name))

    outcome = await writer.apply(job, action, known)

    assert isinstance(outcome, TryAgain)
    assert await read(api, "ConfigMap", name) == before


async def test_certificates_of_changed_names_leave_no_old_key(
    api: KubernetesApi, writer: Writer
) -> None:
    job = await a_stored_job(api, "reissued")
    action = write_of("Secret", job)
    assert isinstance(action, IssueCertificates)
    await writer.apply(job, action, None)
    first = await read(api, "Secret", action.secret)
    body = {"data": {"left-over.crt": "b2xk"}}
    path = f"{collection('Secret', 'default')}/{action.secret}"
    await api.request(
        "PATCH",
        path,
        body=body,
        content_type="application/merge-patch+json",
        query={"fieldManager": FIELD_MANAGER},
    )

    assert isinstance(await writer.apply(job, action, None), Done)

    second = await read(api, "Secret", action.secret)
    assert second["data"].keys() == first["data"].keys()
    assert second["data"] != first["data"]
    assert second["metadata"]["uid"] == first["metadata"]["uid"]


async def by_this_release(writer: Writer, job: JobSeen, manifest: Manifest) -> None:
    assert isinstance(await writer.apply(job, Apply(manifest=manifest), None), Done)


async def by_an_earlier_release(api: KubernetesApi, manifest: Manifest) -> None:
    """Write as releases do that know no creation by POST."""
    body = deepcopy(dict(manifest))
    del body["metadata"]["annotations"][FIELDS_HASH]
    path = f"{collection(body['kind'], 'default')}/{body['metadata']['name']}"
    query = {"fieldManager": FIELD_MANAGER, "force": "true"}
    reply = await api.request("PATCH", path, query=query, body=body, content_type=APPLY)
    assert reply.is_success, reply


FULL = {"runtime": {"podTemplate": {"env": [{"name": "A", "value": "1"}], "labels": {"a": "b"}}}}
DOWNGRADED = {"runtime": {"podTemplate": {"env": [{"name": "B", "value": "1"}]}}}


@pytest.mark.parametrize("history", ["created", "applied", "created and applied"])
async def test_field_that_a_manifest_drops_disappears_whoever_created_the_object(
    api: KubernetesApi, writer: Writer, history: str
) -> None:
    name = f"drops-{history.replace(' ', '-')}"
    job = await a_stored_job(api, name)
    manifests = {
        which: sets_of(job, spec)
        for which, spec in {"full": FULL, "downgraded": DOWNGRADED, "plain": {}}.items()
    }
    if "created" in history:
        await by_this_release(writer, job, manifests["full"])
    else:
        await by_an_earlier_release(api, manifests["full"])
    if "and" in history:
        await by_an_earlier_release(api, manifests["downgraded"])
    set_name = manifests["plain"]["metadata"]["name"]
    before = await read(api, "StatefulSet", set_name)

    outcome = await written(api, writer, job, manifests["plain"])

    after = outcome.object["spec"]["template"]
    names = {each["name"] for each in after["spec"]["containers"][0].get("env") or ()}
    assert not {"A", "B"} & names
    assert "a" not in after["metadata"]["labels"]
    for field in ("restartPolicy", "dnsPolicy", "schedulerName"):
        assert after["spec"][field] == before["spec"]["template"]["spec"][field]


def sets_of(job: JobSeen, spec: dict[str, Any]) -> Manifest:
    """Return the StatefulSet of the rollouts as another spec of the job has it."""
    other = replace(a_job(name=job.name, **spec), uid=job.uid)
    return [each for each in children(deployment_of(other)) if each["kind"] == "StatefulSet"][-1]


async def test_label_of_others_stays_when_fields_are_dropped(
    api: KubernetesApi, writer: Writer
) -> None:
    job = await a_stored_job(api, "labelled")
    full, plain = sets_of(job, FULL), sets_of(job, {})
    await by_this_release(writer, job, full)
    name = plain["metadata"]["name"]
    body = {"metadata": {"labels": {"team": "theirs"}}}
    path = f"{collection('StatefulSet', 'default')}/{name}"
    await api.request("PATCH", path, body=body, content_type="application/merge-patch+json")

    outcome = await written(api, writer, job, plain)

    assert outcome.object["metadata"]["labels"]["team"] == "theirs"


async def test_object_that_lost_its_labels_gets_them_back(
    api: KubernetesApi, writer: Writer
) -> None:
    job = await a_stored_job(api, "unlabelled")
    action = write_of("Service", job)
    await writer.apply(job, action, None)
    path = f"{collection('Service', 'default')}/{job.name}"
    await api.request(
        "PATCH",
        path,
        body={"metadata": {"labels": None}},
        content_type="application/merge-patch+json",
    )

    outcome = await writer.apply(job, action, None)

    assert isinstance(outcome, Done), outcome
    assert outcome.object["metadata"]["labels"] == of_child(job.name, job.uid)
