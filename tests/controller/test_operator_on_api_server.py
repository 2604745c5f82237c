"""The operator on a real API server, scheduler and StatefulSet controller; nodes are kwok's."""

import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.cluster.cluster import Cluster
from tests.controller.operator_process import (
    Namespace,
    OperatorProcess,
    a_job,
    cluster_with_crds,
    eventually,
    operator_on,
)

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

COORDINATOR = "sums-coordinator-0"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with cluster_with_crds("operator", num_nodes=3) as found:
        yield found


@pytest.fixture(scope="module")
def operator(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    with operator_on(cluster, tmp_path_factory.mktemp("operator")) as found:
        yield found


def start(space: Namespace, **spec: Any) -> None:
    space.apply(a_job(**spec))
    space.wait_for_phase("Running")


def pod_uids(space: Namespace) -> dict[str, str]:
    return {
        each["metadata"]["name"]: each["metadata"]["uid"] for each in space.get("pods")["items"]
    }


def test_job_becomes_pods_on_exactly_the_machines_of_its_plan(space: Namespace) -> None:
    start(space)

    plan = space.get("hetrlplan", space.job()["status"]["plan"]["name"])
    planned = sorted(
        run["machines"]
        for group in plan["spec"]["groups"]
        for placement in group["placements"]
        for run in placement["runs"]
        for _ in range(run.get("times", 1))
    )
    pods = [each for each in space.get("pods")["items"] if each["metadata"]["name"] != COORDINATOR]
    assert sorted(pod["spec"]["nodeName"] for pod in pods) == planned
    assert space.condition("Running")["observedGeneration"] == 1


def test_deleting_a_job_leaves_no_object(space: Namespace) -> None:
    start(space)
    assert space.names("secrets") == ["sums-identity"]

    space.cluster.kubectl("delete", "-n", space.name, "hetrljob", "sums")

    kinds = "statefulsets,services,configmaps,secrets,hetrlplans,pods"
    eventually(lambda: space.names(kinds) == [], what="nothing of the job is left")


def test_coordinators_report_reaches_the_status(
    space: Namespace, operator: OperatorProcess
) -> None:
    start(space)
    report = {
        "step": "4",
        "total_steps": "10",
        "version": "4",
        "samples_per_second": 8.5,
        "reward_mean": 0.5,
        "staleness_p95": 2,
        "eta_seconds": 30,
    }

    status = operator.post_progress(space.name, "sums", space.token_of(COORDINATOR), report)

    assert status == 204
    shown = eventually(lambda: space.job()["status"].get("progress"), what="progress is shown")
    assert (shown["step"], shown["samplesPerSecond"], shown["stalenessP95"]) == (4, 8.5, 2)


@pytest.mark.parametrize(
    ("pod", "audience", "status"),
    [
        pytest.param("sums-trainer", "hetrl-operator", 403, id="another-pod"),
        pytest.param(COORDINATOR, "https://kubernetes.default.svc", 401, id="another-audience"),
    ],
)
def test_report_from_another_sender_is_refused(
    space: Namespace, operator: OperatorProcess, pod: str, audience: str, status: int
) -> None:
    start(space)
    name = next(each for each in pod_uids(space) if each.startswith(pod))

    token = space.token_of(name, audience=audience)

    assert operator.post_progress(space.name, "sums", token, {"step": 1}) == status
    assert operator.post_progress(space.name, "sums", "nonsense", {"step": 1}) == 401


def test_finished_job_keeps_its_status_and_no_pod(
    space: Namespace, operator: OperatorProcess
) -> None:
    start(space)
    report = {
        "step": "10",
        "total_steps": "10",
        "finished": True,
        "outcome": "Succeeded",
        "reason": "AllStepsDone",
        "message": "10 steps are done",
    }

    operator.post_progress(space.name, "sums", space.token_of(COORDINATOR), report)

    space.wait_for_phase("Succeeded")
    eventually(lambda: not space.get("pods")["items"], what="the pods are gone")
    assert space.job()["status"]["progress"]["step"] == 10
    events = space.get("events", "--field-selector=reason=Completed")["items"]
    assert [each["message"] for each in events] == ["10 steps are done"]


def test_process_that_gives_up_fails_the_job_with_reason(space: Namespace) -> None:
    start(space)
    trainer = next(each for each in pod_uids(space) if "trainer" in each)

    space.end_container(trainer, exit_code=3, message="/models/tiny: no such folder")

    failed = space.wait_for_reason("Failed", "TrainerFailed")
    assert "/models/tiny: no such folder" in failed["message"]
    eventually(lambda: not space.get("pods")["items"], what="the pods are gone")


def test_job_that_fits_nowhere_says_why_and_makes_no_pods(space: Namespace) -> None:
    space.apply(a_job(resources={"pools": [{"name": "big", "gpuProduct": "H100-80GB"}]}))

    planned = space.wait_for_reason("Planned", "Infeasible")

    assert planned["status"] == "False"
    assert planned["message"]
    assert space.names("statefulsets,pods") == []


def test_job_is_planned_when_a_cordoned_node_is_back(space: Namespace) -> None:
    node = "fake-l4-0"
    space.cluster.kubectl("cordon", node)
    try:
        space.apply(a_job(resources={"pools": [{"name": "l4", "gpuProduct": "L4"}]}))
        planned = space.wait_for_reason("Planned", "Infeasible")
        assert f"1 node left out ({node}): cordoned" in planned["message"]
    finally:
        space.cluster.kubectl("uncordon", node)

    space.wait_for_phase("Running")


def test_job_without_dimensions_is_not_accepted(space: Namespace) -> None:
    space.apply(a_job(model={"source": {"hub": "owner/name"}}))

    accepted = space.wait_for_reason("Accepted", "InvalidSpec")

    assert "spec.model.architecture is required" in accepted["message"]


def test_plan_only_job_shows_its_plan_and_creates_nothing(space: Namespace) -> None:
    space.apply(a_job(planning={"mode": "PlanOnly"}))

    space.wait_for_phase("Planned")

    assert space.job()["status"]["plan"]["dollarsPerHour"] > 0
    assert space.names("statefulsets,services,configmaps,secrets") == []


def test_suspending_frees_the_gpus_and_resuming_brings_the_pods_back(
    space: Namespace, operator: OperatorProcess
) -> None:
    start(space)

    space.patch({"suspend": True})
    space.wait_for_phase("Suspended")
    assert space.get("pods")["items"] == []
    cost = f'hetrl_cost_dollars_per_hour{{hetrljob="sums",namespace="{space.name}"}} 0.0'
    eventually(lambda: cost in operator.metrics(), what="the job costs nothing")
    space.patch({"suspend": False})

    space.wait_for_phase("Running")


def test_killed_rollout_is_replaced_and_nothing_else(space: Namespace) -> None:
    start(space)
    before = pod_uids(space)
    killed = next(each for each in before if "rollout" in each)

    space.cluster.kubectl("delete", "-n", space.name, "pod", killed, "--wait=false")

    eventually(
        lambda: pod_uids(space).get(killed, before[killed]) != before[killed], what="another pod"
    )
    space.wait_for_phase("Running")
    after = pod_uids(space)
    assert {name for name in before if before[name] != after[name]} == {killed}


def test_missing_volume_fails_the_job_within_its_start_up_deadline(space: Namespace) -> None:
    space.apply(
        a_job(
            model={**a_job()["spec"]["model"], "source": {"claim": {"name": "weights"}}},
            startupDeadlineSeconds=3,
        )
    )

    failed = space.wait_for_reason("Failed", "StartupDeadlineExceeded")

    assert '"weights" not found' in failed["message"]
    eventually(lambda: not space.get("pods")["items"], what="the pods are gone")


def test_second_job_waits_for_the_gpus_of_the_first(space: Namespace) -> None:
    # Both want nearly every L4 of the fleet.
    pool = {"pools": [{"name": "l4", "gpuProduct": "L4"}]}
    whole = {"resources": pool, "rollout": {"minReplicas": 5}}
    start(space, **whole)
    space.apply(a_job("second", **whole))

    waiting = space.wait_for_reason("Planned", "FleetOccupied", "second")
    assert "other jobs hold" in waiting["message"]
    space.cluster.kubectl("delete", "-n", space.name, "hetrljob", "sums")

    space.wait_for_phase("Running", "second")


def test_child_that_is_deleted_comes_back(space: Namespace) -> None:
    start(space)

    space.cluster.kubectl("delete", "-n", space.name, "configmap", COORDINATOR.removesuffix("-0"))

    eventually(
        lambda: COORDINATOR.removesuffix("-0") in space.names("configmaps"), what="it is back"
    )


def test_settled_job_is_left_alone_also_by_a_restarted_operator(
    space: Namespace, operator: OperatorProcess
) -> None:
    start(space)
    settled = _settled(space)

    operator.stop(signal.SIGKILL)
    operator.start()
    time.sleep(5)  # the assertion is that nothing happens, which only time can tell

    assert space.versions() == settled


def test_operator_that_dies_half_way_resumes_where_it_was(
    space: Namespace, operator: OperatorProcess
) -> None:
    space.apply(a_job())
    eventually(lambda: space.names("hetrlplans"), what="the plan is there")

    operator.stop(signal.SIGKILL)
    operator.start()

    space.wait_for_phase("Running")
    assert len(space.names("hetrlplans")) == 1


def _settled(space: Namespace) -> dict[str, str]:
    """Wait until nothing changes for a while, and return what there is."""
    before = space.versions()
    quiet_since = time.monotonic()
    while time.monotonic() - quiet_since < 3:
        time.sleep(0.5)
        now = space.versions()
        if now != before:
            before, quiet_since = now, time.monotonic()
    return before
