"""Names of a job's objects that something else has already, on a real API server."""

import json
from typing import Any

import pytest

from hetrl_operator.model.reasons import EventReason, Reason
from tests.controller.api_server import tells
from tests.controller.operator_process import Namespace, a_job, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

LABELS = {"app": "theirs"}
TEMPLATE = {
    "metadata": {"labels": LABELS},
    "spec": {"containers": [{"name": "theirs", "image": "theirs:1"}]},
}
FOREIGN: dict[str, dict[str, Any]] = {
    "Secret": {"apiVersion": "v1", "data": {"ca.crt": "dGhlaXJz", "signing-key": "a2V5"}},
    "ConfigMap": {"apiVersion": "v1", "data": {"settings.yaml": "their: settings"}},
    "Service": {"apiVersion": "v1", "spec": {"selector": LABELS, "ports": [{"port": 80}]}},
    "StatefulSet": {
        "apiVersion": "apps/v1",
        "spec": {
            "serviceName": "theirs",
            "replicas": 0,
            "selector": {"matchLabels": LABELS},
            "template": TEMPLATE,
        },
    },
}
SUFFIXES = {"Secret": "-identity", "ConfigMap": "-coordinator", "StatefulSet": "-coordinator"}
SMALL = {"planning": {"timeBudgetSeconds": 1}, "resources": {"maxGPUs": 2}}


def occupy(space: Namespace, kind: str, name: str, **metadata: Any) -> dict[str, Any]:
    """Create a user's object, and return it as it is stored."""
    space.apply({"kind": kind, **FOREIGN[kind], "metadata": {"name": name, **metadata}})

    def settled() -> dict[str, Any]:
        found = space.get(kind, name)
        has_status = kind != "StatefulSet" or "updateRevision" in found.get("status", {})
        return found if has_status else {}

    return eventually(settled, what=f"the controller has seen {kind} {name}")


def delete(space: Namespace, kind: str, *names: str) -> None:
    space.cluster.kubectl("delete", "-n", space.name, kind, *names, "--wait=false")


def wake(space: Namespace, job: str) -> None:
    """Have a job reconciled now: a deletion of objects that are not ours is not watched."""
    space.cluster.kubectl("annotate", "-n", space.name, "hetrljob", job, "example.com/look=now")


def test_foreign_objects_outlive_jobs_that_continue_with_free_names(space: Namespace) -> None:
    jobs = {kind: f"of-{kind.lower()}" for kind in FOREIGN}
    names = {kind: job + SUFFIXES.get(kind, "") for kind, job in jobs.items()}
    before = {kind: occupy(space, kind, name, labels=LABELS) for kind, name in names.items()}
    for job in jobs.values():
        space.apply(a_job(job, **SMALL))

    for kind, job in jobs.items():
        created = space.wait_for_reason("ResourcesCreated", Reason.NAME_TAKEN, job)
        assert created["status"] == "False"
        assert f"{kind} {names[kind]} exists already" in created["message"]
    assert tells(space, EventReason.FAILED_TO_APPLY)
    continued = "ConfigMap"
    delete(space, continued, names[continued])
    del before[continued]
    wake(space, jobs[continued])
    space.wait_for_phase("Running", jobs[continued])
    delete(space, "hetrljob", *jobs.values())
    eventually(lambda: not space.get("hetrljobs")["items"], what="the jobs are gone")
    kinds = "statefulsets,services,configmaps,secrets,hetrlplans,pods"
    eventually(lambda: space.names(kinds) == [], what="nothing of the jobs is left")

    assert {kind: space.get(kind, names[kind]) for kind in before} == before


def test_object_that_is_about_to_be_gone_is_waited_for(space: Namespace) -> None:
    name = "sums-coordinator"
    occupy(space, "ConfigMap", name, finalizers=["example.com/held"])
    delete(space, "configmap", name)

    space.apply(a_job(**SMALL))

    created = space.wait_for_reason("ResourcesCreated", Reason.CONFLICT)
    assert f"ConfigMap {name} is being deleted" in created["message"]
    nothing = json.dumps({"metadata": {"finalizers": None}})
    space.cluster.kubectl(
        "patch", "-n", space.name, "configmap", name, "--type=merge", "-p", nothing
    )
    space.wait_for_phase("Running")
