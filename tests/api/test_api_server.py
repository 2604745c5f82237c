"""The same objects before a real API server, which must judge them as `load_job` does."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config
from kubernetes.client import ApiException

from e2e.cluster.cluster import Cluster
from hetrl_api.job.job import HetRLJob
from hetrl_api.load import parse
from hetrl_api.plan.plan import HetRLPlan
from hetrl_api.plan.to_core import from_plan
from hetrl_api.validation.documents import documents
from tests.api.mistakes import INVALID_JOBS
from tests.api.objects import (
    VALID_JOBS,
    a_job,
    a_topology,
)
from tests.api.plans import a_plan_of_10240_gpus
from tests.api.topology_mistakes import INVALID_TOPOLOGIES

pytestmark = pytest.mark.cluster
pytest_plugins = ["e2e.cluster.fixtures"]

ROOT = Path(__file__).parents[2]
CRDS = ROOT / "crds"
EXAMPLES = sorted(
    path for path in (ROOT / "examples").glob("*.yaml") if "\nkind: HetRL" in path.read_text()
)


@pytest.fixture(scope="module")
def objects(api_server: Cluster) -> Iterator[client.CustomObjectsApi]:
    api_server.add_kinds(CRDS)
    with config.new_client_from_config(str(api_server.kubeconfig)) as connection:
        yield client.CustomObjectsApi(connection)


def dry_run(objects: client.CustomObjectsApi, manifest: dict[str, Any]) -> dict[str, Any]:
    common = {
        "group": "hetrl.dev",
        "version": "v1alpha1",
        "body": manifest,
        "dry_run": "All",
        "field_validation": "Strict",
    }
    if manifest["kind"] == "HetRLTopology":
        return objects.create_cluster_custom_object(plural="hetrltopologies", **common)
    return objects.create_namespaced_custom_object(
        namespace="default", plural="hetrljobs", **common
    )


@pytest.mark.parametrize("job", VALID_JOBS)
def test_server_takes_what_we_take(objects: client.CustomObjectsApi, job: dict[str, Any]) -> None:
    assert dry_run(objects, job)["spec"]["managedBy"] == "hetrl.dev/operator"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_server_takes_every_example(objects: client.CustomObjectsApi, path: Path) -> None:
    for manifest in documents(path.read_text()):
        assert dry_run(objects, manifest)["metadata"]["name"] == manifest["metadata"]["name"]


@pytest.mark.parametrize(("manifest", "said"), [*INVALID_JOBS, *INVALID_TOPOLOGIES])
def test_server_refuses_what_we_refuse(
    objects: client.CustomObjectsApi, manifest: dict[str, Any], said: tuple[str, ...]
) -> None:
    with pytest.raises(ApiException) as refusal:
        dry_run(objects, manifest)

    assert refusal.value.status in {400, 422}
    assert all(part in refusal.value.body for part in _as_json(said)), refusal.value.body


def test_server_fills_in_the_defaults_that_we_fill_in(
    objects: client.CustomObjectsApi,
) -> None:
    ours = parse(HetRLJob, a_job()).model_dump(mode="json", by_alias=True, exclude_none=True)

    assert _without_empty(dry_run(objects, a_job())["spec"]) == _without_empty(ours["spec"])


def test_job_keeps_its_model_and_may_be_suspended(objects: client.CustomObjectsApi) -> None:
    place = {
        "group": "hetrl.dev",
        "version": "v1alpha1",
        "namespace": "default",
        "plural": "hetrljobs",
    }
    objects.create_namespaced_custom_object(**place, body=a_job())
    try:
        patch = {**place, "name": "arithmetic"}
        with pytest.raises(ApiException) as refusal:
            objects.patch_namespaced_custom_object(
                **patch, body={"spec": {"algorithm": {"groupSize": 16}}}
            )
        suspended = objects.patch_namespaced_custom_object(
            **patch, body={"spec": {"suspend": True}}
        )
    finally:
        objects.delete_namespaced_custom_object(**place, name="arithmetic")

    assert "spec.algorithm cannot change" in refusal.value.body
    assert suspended["spec"]["suspend"] is True


def test_plan_of_10240_gpus_is_stored_and_never_changes(
    objects: client.CustomObjectsApi,
) -> None:
    spec = from_plan(a_plan_of_10240_gpus([f"gke-pool-{n * 7919:x}" for n in range(1280)]))
    place = {
        "group": "hetrl.dev",
        "version": "v1alpha1",
        "namespace": "default",
        "plural": "hetrlplans",
    }
    plan = {
        "apiVersion": "hetrl.dev/v1alpha1",
        "kind": "HetRLPlan",
        "metadata": {"name": "large"},
        "spec": spec.model_dump(mode="json", by_alias=True, exclude_none=True),
    }
    stored = objects.create_namespaced_custom_object(**place, body=plan)
    try:
        with pytest.raises(ApiException) as refusal:
            objects.patch_namespaced_custom_object(
                **place, name="large", body={"spec": {"seed": 99}}
            )
    finally:
        objects.delete_namespaced_custom_object(**place, name="large")

    assert parse(HetRLPlan, stored).spec == spec
    assert "spec cannot change" in refusal.value.body


def test_rollouts_scale_through_the_scale_subresource(
    api_server: Cluster, objects: client.CustomObjectsApi
) -> None:
    api_server.apply(yaml.safe_dump(a_job()))
    try:
        before = objects.get_namespaced_custom_object_scale(
            group="hetrl.dev",
            version="v1alpha1",
            namespace="default",
            plural="hetrljobs",
            name="arithmetic",
        )
        api_server.kubectl("scale", "--replicas=3", "hrj/arithmetic")
        after = api_server.kubectl("get", "hrj/arithmetic", "-o=jsonpath={.spec.rollout.replicas}")
    finally:
        api_server.kubectl("delete", "hrj/arithmetic")

    assert before["spec"].get("replicas", 0) == 0
    assert after == "3"


def test_cluster_topology_is_cluster_scoped(objects: client.CustomObjectsApi) -> None:
    assert "namespace" not in dry_run(objects, a_topology())["metadata"]


def _as_json(said: tuple[str, ...]) -> list[str]:
    """The server answers in JSON, where some signs are escaped."""
    escapes = {"\\": "\\\\", '"': '\\"', "<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
    return ["".join(escapes.get(sign, sign) for sign in part) for part in said]


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _without_empty(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each not in ({}, [])}
    return value
