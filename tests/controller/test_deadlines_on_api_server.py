"""Each deadline of a job reached on a real API server."""

import pytest

from hetrl_operator.model.reasons import EventReason, Reason
from tests.controller.api_server import COORDINATOR, not_ready, pod_of, report, start, tells, uids
from tests.controller.operator_process import Namespace, OperatorProcess, a_job, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_stuck_rollout_is_replaced_while_the_others_run(space: Namespace) -> None:
    before = start(space, rollout={"replicas": 2}, startupDeadlineSeconds=3)
    stuck = pod_of(space, "rollout")

    not_ready(space, stuck, "ContainerCreating")

    eventually(lambda: uids(space).get(stuck, before[stuck]) != before[stuck], what="another pod")
    space.wait_for_phase("Running")
    assert {name for name, uid in uids(space).items() if before.get(name) != uid} == {stuck}
    assert "startupDeadlineSeconds" in tells(space, EventReason.POD_REPLACED)


def test_run_longer_than_its_deadline_fails_and_frees_its_gpus(space: Namespace) -> None:
    start(space, activeDeadlineSeconds=6)

    failed = space.wait_for_reason("Failed", Reason.DEADLINE_EXCEEDED)

    assert "spec.activeDeadlineSeconds (6 s)" in failed["message"]
    eventually(lambda: not space.get("pods")["items"], what="the pods are gone")
    eventually(
        lambda: not space.job()["metadata"].get("finalizers"), what="the job is held no more"
    )
    assert tells(space, EventReason.FAILED)


@pytest.mark.parametrize("what", ["plan", "node"])
def test_waiting_for_gpus_has_a_deadline_of_its_own(space: Namespace, what: str) -> None:
    limits = {"unschedulableDeadlineSeconds": 4, "startupDeadlineSeconds": 86400}
    if what == "plan":
        space.apply(a_job(resources={"pools": [{"name": "x", "gpuProduct": "H100"}]}, **limits))
    else:
        # The coordinator needs no GPU, but more memory than any node has.
        template = {"resources": {"coordinator": {"memory": "9000Gi"}}}
        space.apply(a_job(runtime={"engine": "transformers", "podTemplate": template}, **limits))

    failed = space.wait_for_reason("Failed", Reason.UNSCHEDULABLE_DEADLINE_EXCEEDED)

    waited = "it waited for: a plan" if what == "plan" else f"{COORDINATOR}: Unschedulable"
    assert waited in failed["message"]
    eventually(lambda: not space.get("pods")["items"], what="the pods are gone")


def test_finished_job_is_deleted_when_its_time_is_over(
    space: Namespace, operator: OperatorProcess
) -> None:
    start(space, ttlSecondsAfterFinished=2)

    report(space, operator, finished=True, outcome="Succeeded", reason="AllStepsDone")

    eventually(lambda: not space.get("hetrljobs")["items"], what="the job is gone")
    assert tells(space, EventReason.TTL_EXPIRED)
    kinds = "statefulsets,services,configmaps,secrets,hetrlplans,pods"
    eventually(lambda: space.names(kinds) == [], what="nothing of the job is left")
