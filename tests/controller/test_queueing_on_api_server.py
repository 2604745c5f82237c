"""Jobs in a queue on a real API server with Kueue's kinds; the tests write Kueue's conditions.

``bench/proof/kueue`` shows the same with Kueue itself.
"""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from e2e.cluster.build import KUEUE_KINDS, folder_of_module
from e2e.cluster.cluster import Cluster
from hetrl_operator.model.reasons import EventReason, Reason
from tests.controller.api_server import tells
from tests.controller.operator_process import (
    Namespace,
    OperatorProcess,
    a_job,
    cluster_with_crds,
    eventually,
    namespace_for,
)

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

QUEUE = {"kueue.x-k8s.io/queue-name": "team", "kueue.x-k8s.io/priority-class": "urgent"}
URGENT = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "WorkloadPriorityClass",
    "metadata": {"name": "urgent"},
    "value": 1000,
}


@pytest.fixture(scope="module")
def queues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with Kueue's kinds, and an operator that uses them."""
    folder = tmp_path_factory.mktemp("queues")
    with cluster_with_crds("queues", num_nodes=3) as cluster:
        kinds = [
            _stored_as_v1beta2(yaml.safe_load(each.read_text()))
            for each in (folder_of_module(KUEUE_KINDS) / "bases").glob("*.yaml")
            if "workload" in each.name
        ]
        cluster.add_kinds(yaml.safe_dump_all(kinds))
        cluster.apply(yaml.safe_dump(URGENT))
        process = OperatorProcess(cluster, folder)
        process.start(HETRL_KUEUE="true")
        yield cluster
        assert process.stop() == 0
        log = process.log.read_text()
        assert "Traceback" not in log, log[-5000:]


def _stored_as_v1beta2(body: dict[str, Any]) -> dict[str, Any]:
    """Without Kueue nothing converts objects that are stored as another version."""
    for version in body["spec"]["versions"]:
        version["storage"] = version["name"] == "v1beta2"
    return body


@pytest.fixture
def place(queues: Cluster, request: pytest.FixtureRequest) -> Iterator[Namespace]:
    with namespace_for(queues, request.node.name) as found:
        yield found


def test_queued_job_is_admitted_evicted_and_admitted_again(place: Namespace) -> None:
    submit(place)
    place.wait_for_reason("QuotaReserved", Reason.WAITING_FOR_QUOTA)
    found = workload(place)
    assert found["spec"]["queueName"] == "team"
    assert found["spec"]["priority"] == 1000
    assert not place.get("pods")["items"]

    say(place, ("QuotaReserved", True, "QuotaReserved"), ("Admitted", True, "Admitted"))
    place.wait_for_phase("Running")
    assert place.condition("QuotaReserved")["reason"] == Reason.ADMITTED
    eventually(lambda: condition(place, "PodsReady").get("status") == "True", what="PodsReady")

    say(place, ("Evicted", True, "Preempted"))
    place.wait_for_reason("QuotaReserved", Reason.PREEMPTED)
    place.wait_for_reason("Suspended", Reason.QUEUED)
    place.wait_for_phase("Queued")
    eventually(lambda: "admission" not in workload(place)["status"], what="quota is returned")
    assert condition(place, "Requeued")["status"] == "True"
    assert condition(place, "PodsReady")["status"] == "False"

    say(
        place,
        ("QuotaReserved", True, "QuotaReserved"),
        ("Admitted", True, "Admitted"),
        ("Evicted", False, "QuotaReserved"),
    )
    place.wait_for_phase("Running")
    place.patch({"suspend": True})
    place.wait_for_reason("QuotaReserved", Reason.QUOTA_RETURNED)
    eventually(lambda: not place.get("workloads")["items"], what="the Workload is deleted")
    for each in (EventReason.QUEUED, EventReason.ADMITTED, EventReason.EVICTED):
        assert tells(place, each)


@pytest.mark.parametrize(
    ("active", "reason"), [(True, Reason.EVICTED), (False, Reason.DEACTIVATED)]
)
def test_kueue_says_why_a_job_stops(place: Namespace, *, active: bool, reason: str) -> None:
    submit(place)
    eventually(lambda: place.get("workloads")["items"], what="a Workload")
    say(place, ("QuotaReserved", True, "QuotaReserved"), ("Admitted", True, "Admitted"))
    place.wait_for_phase("Running")
    name = workload(place)["metadata"]["name"]
    body = json.dumps({"spec": {"active": active}})
    place.cluster.kubectl("patch", "-n", place.name, "workload", name, "--type=merge", "-p", body)

    say(place, ("Evicted", True, "PodsReadyTimeout"))

    place.wait_for_reason("QuotaReserved", reason)
    place.wait_for_phase("Queued")


def test_queue_label_without_kueue_is_reported(space: Namespace) -> None:
    submit(space)

    found = space.wait_for_reason("QuotaReserved", Reason.QUEUE_IGNORED)

    assert "kueue.enabled" in found["message"]
    space.wait_for_phase("Running")
    assert tells(space, EventReason.QUEUE_IGNORED)


def submit(place: Namespace) -> None:
    job = a_job(planning={"timeBudgetSeconds": 1})
    job["metadata"]["labels"] = QUEUE
    place.apply(job)


def workload(place: Namespace) -> dict[str, Any]:
    """The only one."""

    def probe() -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = place.get("workloads")["items"]
        return items

    (found,) = eventually(probe, what="a Workload")
    found.setdefault("status", {})
    return found


def condition(place: Namespace, type_: str) -> dict[str, Any]:
    """A condition of it; empty where it is not there yet."""
    conditions = workload(place)["status"].get("conditions", [])
    return next((each for each in conditions if each["type"] == type_), {})


def say(place: Namespace, *said: tuple[str, bool, str]) -> None:
    """Write conditions as Kueue does, and the admission that goes with quota."""
    found, now = workload(place), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = [
        {
            "type": type_,
            "status": str(holds),
            "reason": reason,
            "message": "as Kueue says it",
            "lastTransitionTime": now,
        }
        for type_, holds, reason in said
    ]
    body = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": found["metadata"]["name"], "namespace": place.name},
        "status": {
            "admission": {
                "clusterQueue": "research",
                "podSetAssignments": [
                    {"name": each["name"], "count": each["count"]}
                    for each in found["spec"]["podSets"]
                ],
            },
            "conditions": conditions,
        },
    }
    place.cluster.kubectl(
        "apply",
        "-n",
        place.name,
        "--server-side",
        "--subresource=status",
        "--force-conflicts",
        f"--field-manager=kueue-{os.urandom(4).hex()}",
        "-f",
        "-",
        stdin=yaml.safe_dump(body),
    )
