"""Writes over other writes, on a real API server and without an operator beside it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.cluster import Cluster
from hetrl_api.job.status import Phase
from hetrl_operator.kube.client import APPLY, MERGE, KubernetesApi
from hetrl_operator.kube.paths import collection
from hetrl_operator.kube.write_results import Done, TryAgain
from hetrl_operator.kube.writer import Writer
from hetrl_operator.model.actions import AddFinalizer, RemoveFinalizer, WriteStatus
from hetrl_operator.model.labels import API_VERSION, FINALIZER
from hetrl_operator.model.parse import job_seen
from tests.controller.writers import a_stored_job, connection, read

pytestmark = pytest.mark.cluster
pytest_plugins = ["e2e.cluster.fixtures"]

CRDS = Path(__file__).parents[2] / "crds"
THEIRS = "example.com/theirs"


@pytest.fixture(scope="module")
def kinds(api_server: Cluster) -> Cluster:
    api_server.add_kinds(CRDS)
    return api_server


@pytest.fixture
async def api(kinds: Cluster) -> AsyncIterator[KubernetesApi]:
    async with connection(kinds) as found:
        yield found


@pytest.fixture
def writer(api: KubernetesApi) -> Writer:
    return Writer(api, may_write=lambda: True)


async def phase(api: KubernetesApi) -> str:
    return str((await read(api, "HetRLJob", "sums"))["status"]["phase"])


async def patch(api: KubernetesApi, name: str, metadata: dict[str, Any]) -> None:
    """Change the metadata of a job as a user does."""
    path = f"{collection('HetRLJob', 'default')}/{name}"
    reply = await api.request("PATCH", path, body={"metadata": metadata}, content_type=MERGE)
    assert reply.is_success, reply


async def test_stale_job_does_not_undo_its_end(api: KubernetesApi, writer: Writer) -> None:
    before = await a_stored_job(api, "sums")
    ended = before.status.model_copy(update={"phase": Phase.SUCCEEDED})
    runs = before.status.model_copy(update={"phase": Phase.RUNNING})

    written = await writer.apply(before, WriteStatus(status=ended), None)
    refused = await writer.apply(before, WriteStatus(status=runs), None)

    assert isinstance(written, Done)
    assert isinstance(refused, TryAgain), refused
    assert not refused.is_missing, "it is there, only newer"
    assert await phase(api) == "Succeeded"

    newer = job_seen(written.object)
    assert isinstance(await writer.apply(newer, WriteStatus(status=runs), None), Done)
    assert await phase(api) == "Running"


@pytest.mark.parametrize(
    ("name", "finalizers", "kept"),
    [
        pytest.param("only", (FINALIZER,), [], id="ours alone"),
        pytest.param("first", (FINALIZER, THEIRS), [THEIRS], id="one of others after it"),
        pytest.param("last", (THEIRS, FINALIZER), [THEIRS], id="one of others before it"),
    ],
)
async def test_finalizer_patch_keeps_finalizers_of_others(
    api: KubernetesApi, writer: Writer, name: str, finalizers: tuple[str, ...], kept: list[str]
) -> None:
    # Written by the client that creates the job, which owns the item of the list.
    job = await a_stored_job(api, name, finalizers=finalizers)
    assert isinstance(await writer.apply(job, AddFinalizer(), None), Done)

    assert isinstance(await writer.apply(job, RemoveFinalizer(), None), Done)

    found = await read(api, "HetRLJob", name)
    assert found["metadata"].get("finalizers", []) == kept


async def test_finalizer_patch_on_a_changed_list_retries_with_fresh_job(
    api: KubernetesApi, writer: Writer
) -> None:
    stale = await a_stored_job(api, "changed", finalizers=(THEIRS, FINALIZER))
    await patch(api, "changed", {"finalizers": [FINALIZER, THEIRS]})

    outcome = await writer.apply(stale, RemoveFinalizer(), None)

    assert isinstance(outcome, TryAgain)
    found = await read(api, "HetRLJob", "changed")
    assert found["metadata"]["finalizers"] == [FINALIZER, THEIRS]
    assert isinstance(await writer.apply(job_seen(found), RemoveFinalizer(), None), Done)


async def test_finalizer_patch_retries_if_a_second_finalizer_remains(
    api: KubernetesApi, writer: Writer
) -> None:
    job = await a_stored_job(api, "twice", finalizers=(FINALIZER, FINALIZER))

    assert isinstance(await writer.apply(job, RemoveFinalizer(), None), TryAgain)

    fresh = job_seen(await read(api, "HetRLJob", "twice"))
    assert isinstance(await writer.apply(fresh, RemoveFinalizer(), None), Done)


async def test_finalizer_patch_leaves_a_new_namesake_alone(
    api: KubernetesApi, writer: Writer
) -> None:
    earlier = await a_stored_job(api, "again", finalizers=(FINALIZER,))
    await patch(api, "again", {"finalizers": None})
    await api.request("DELETE", f"{collection('HetRLJob', 'default')}/again")
    await a_stored_job(api, "again", finalizers=(FINALIZER,))

    for action in (RemoveFinalizer(), AddFinalizer()):
        assert isinstance(await writer.apply(earlier, action, None), TryAgain)

    assert (await read(api, "HetRLJob", "again"))["metadata"]["finalizers"] == [FINALIZER]


async def test_restored_status_does_not_outlive_its_overwrite(
    api: KubernetesApi, writer: Writer
) -> None:
    job = await a_stored_job(api, "restored")
    at = "2026-01-31T12:00:00Z"
    complete = {
        "type": "Complete",
        "status": "True",
        "reason": "AllStepsDone",
        "message": "",
        "lastTransitionTime": at,
    }
    body = {
        "apiVersion": API_VERSION,
        "kind": "HetRLJob",
        "metadata": {"name": job.name, "namespace": "default"},
        "status": {"phase": "Succeeded", "completionTime": at, "conditions": [complete]},
    }
    path = f"{collection('HetRLJob', 'default')}/{job.name}/status"
    reply = await api.request(
        "PATCH", path, query={"fieldManager": "restore"}, body=body, content_type=APPLY
    )
    assert reply.is_success, reply
    restored = job_seen(reply.body)
    empty = job.status.model_copy(update={"phase": Phase.PLANNING})

    outcome = await writer.apply(restored, WriteStatus(status=empty), None)

    assert isinstance(outcome, Done)
    assert job_seen(await read(api, "HetRLJob", job.name)).status == empty
