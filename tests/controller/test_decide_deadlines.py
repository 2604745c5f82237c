"""Deadlines on the model of a cluster: what counts, what does not, and when to look again."""

from dataclasses import replace

import pytest

from hetrl_core.plan.plan import Infeasible
from hetrl_operator.model.conditions import condition
from hetrl_operator.model.reasons import ConditionType, EventReason, Reason
from tests.controller.cluster_model import (
    ClusterModel,
    a_cluster,
    a_running_job,
    reason_of,
)
from tests.controller.values import a_job, a_plan, a_report

ROLLOUT = "math-rollout-l4-0-0"


def refuse_a_pod(cluster: ClusterModel) -> None:
    """Let the scheduler find no node for a pod that may start."""
    cluster.pods[ROLLOUT] = replace(
        cluster.pods[ROLLOUT],
        scheduled_at=None,
        node="",
        unschedulable_since=cluster.now,
        waiting_reason="Unschedulable",
    )


def test_job_that_waits_for_gpus_fails_at_its_own_deadline() -> None:
    answer = Infeasible(reasons=("no GPU",))
    cluster = ClusterModel(job=a_job(unschedulableDeadlineSeconds=60), answer=answer)
    cluster.settle()
    assert cluster.wake_after_seconds is not None
    assert cluster.wake_after_seconds <= 60

    cluster.pass_time(seconds=60)
    cluster.settle()

    failed = condition(cluster.job.status, ConditionType.FAILED)
    assert failed
    assert failed.reason == Reason.UNSCHEDULABLE_DEADLINE_EXCEEDED
    assert "it waited for: a plan: no GPU" in failed.message


def test_job_without_that_deadline_waits_for_a_plan_for_ever() -> None:
    cluster = ClusterModel(job=a_job(), answer=Infeasible(reasons=("no GPU",)))
    cluster.settle()

    cluster.pass_time(days=30)
    cluster.settle()

    assert cluster.job.status.phase == "Pending"


def test_time_of_a_suspension_is_no_wait() -> None:
    cluster = a_running_job(a_job(unschedulableDeadlineSeconds=60))
    cluster.change(unschedulableDeadlineSeconds=60, suspend=True)
    cluster.settle()
    cluster.pass_time(hours=1)

    cluster.change(unschedulableDeadlineSeconds=60)
    cluster.settle()
    cluster.make_ready()
    cluster.settle()

    assert cluster.job.status.phase == "Running"


def test_starting_begins_when_every_pod_has_a_node() -> None:
    limits = {"unschedulableDeadlineSeconds": 1000, "startupDeadlineSeconds": 60}
    cluster = a_cluster(a_job(**limits), a_plan())
    cluster.settle()
    refuse_a_pod(cluster)
    cluster.pass_time(seconds=900)
    cluster.settle()
    assert cluster.job.status.phase == "Deploying"

    cluster.pods[ROLLOUT] = replace(
        cluster.pods[ROLLOUT], scheduled_at=cluster.now, unschedulable_since=None
    )
    cluster.settle()
    assert cluster.job.status.phase == "Deploying"
    cluster.pass_time(seconds=60)
    cluster.settle()

    assert reason_of(cluster, ConditionType.FAILED) == Reason.STARTUP_DEADLINE_EXCEEDED


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        pytest.param(
            {"unschedulableDeadlineSeconds": 60},
            Reason.UNSCHEDULABLE_DEADLINE_EXCEEDED,
            id="its-own",
        ),
        pytest.param(
            {"startupDeadlineSeconds": 60}, Reason.STARTUP_DEADLINE_EXCEEDED, id="start-up"
        ),
    ],
)
def test_pod_that_no_node_takes_ends_the_job(limits: dict[str, int], reason: str) -> None:
    cluster = a_cluster(a_job(**limits), a_plan())
    cluster.settle()
    refuse_a_pod(cluster)

    cluster.pass_time(seconds=61)
    cluster.settle()

    assert reason_of(cluster, ConditionType.FAILED) == reason


def test_job_whose_steps_follow_each_other_never_stalls() -> None:
    cluster = a_running_job(a_job(progressDeadlineSeconds=100))

    for step in range(1, 6):
        cluster.pass_time(seconds=90)
        cluster.progress = a_report(step, received_at=cluster.now)
        cluster.settle()
        assert reason_of(cluster, ConditionType.PROGRESSING) == Reason.STEP_ADVANCED

    assert not cluster.messages_of(EventReason.STALLED)


def test_reports_of_the_same_step_are_no_progress() -> None:
    cluster = a_running_job(a_job(progressDeadlineSeconds=100))

    for _ in range(3):
        cluster.pass_time(seconds=45)
        cluster.progress = a_report(7, received_at=cluster.now, waiting_for="rollouts")
        cluster.settle()

    stalled = condition(cluster.job.status, ConditionType.PROGRESSING)
    assert stalled
    assert (stalled.status, stalled.reason) == ("True", Reason.STEP_ADVANCED)
    cluster.pass_time(seconds=45)
    cluster.settle()
    stalled = condition(cluster.job.status, ConditionType.PROGRESSING)
    assert stalled
    assert (stalled.status, stalled.reason) == ("False", Reason.STALLED)
    assert stalled.message.endswith("it waits for rollouts")
    assert cluster.messages_of(EventReason.STALLED) == [stalled.message]
    cluster.progress = a_report(8, received_at=cluster.now)
    cluster.settle()
    assert reason_of(cluster, ConditionType.PROGRESSING) == Reason.STEP_ADVANCED
