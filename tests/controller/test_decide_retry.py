"""A planner that ended without an answer is tried again with a growing backoff."""

from itertools import pairwise

import pytest

from hetrl_operator.decide.plan.backoff import FIRST_SECONDS, JITTER, MOST_SECONDS, backoff_seconds
from hetrl_operator.model.actions import StartPlanning
from hetrl_operator.model.conditions import condition
from hetrl_operator.model.planning import PlannerError
from hetrl_operator.model.reasons import ConditionType, EventReason, Reason
from tests.controller.cluster_model import ClusterModel, a_running_job, reason_of
from tests.controller.values import a_job, a_plan

DIED = PlannerError(reason=Reason.PLANNER_FAILED, message="the planner's process died")


def attempts(cluster: ClusterModel) -> int:
    return sum(isinstance(each, StartPlanning) for each in cluster.written)


def a_failed_job() -> ClusterModel:
    cluster = ClusterModel(job=a_job(), answer=DIED)
    cluster.settle()
    return cluster


def pass_pause(cluster: ClusterModel) -> None:
    assert cluster.wake_after_seconds is not None
    cluster.pass_time(seconds=cluster.wake_after_seconds)


def test_pauses_double_up_to_a_limit() -> None:
    pauses = [backoff_seconds("uid-1", number) for number in range(1, 12)]

    for before, after in pairwise(pauses[:6]):
        assert after > before
    assert FIRST_SECONDS * (1 - JITTER) <= pauses[0] <= FIRST_SECONDS * (1 + JITTER)
    assert max(pauses) <= MOST_SECONDS * (1 + JITTER)
    assert backoff_seconds("uid-1", 10_000) >= MOST_SECONDS * (1 - JITTER)


def test_jobs_that_failed_together_come_back_apart() -> None:
    pauses = {backoff_seconds(f"uid-{number}", 1) for number in range(20)}

    assert len(pauses) == 20


def test_job_says_when_it_is_planned_again() -> None:
    cluster = a_failed_job()

    planned = condition(cluster.job.status, ConditionType.PLANNED)

    assert planned
    assert planned.reason == Reason.PLANNER_FAILED
    assert "the planner's process died; failure 1 in a row, tried again at " in planned.message
    assert cluster.wake_after_seconds is not None
    assert cluster.wake_after_seconds <= FIRST_SECONDS * (1 + JITTER)


def test_retry_waits_for_the_backoff_and_runs_once() -> None:
    cluster = a_failed_job()
    waited = []
    for number in range(1, 5):
        assert attempts(cluster) == number
        assert cluster.wake_after_seconds is not None
        waited.append(cluster.wake_after_seconds)
        pass_pause(cluster)
        cluster.settle()

    assert all(after > before for before, after in pairwise(waited))


@pytest.mark.parametrize("key", ["another-fleet", "a-third-one"])
def test_fleet_that_changes_does_not_shorten_the_pause(key: str) -> None:
    cluster = a_failed_job()

    cluster.move_fleet(key)
    cluster.settle()

    assert attempts(cluster) == 1
    assert reason_of(cluster, ConditionType.PLANNED) == Reason.PLANNER_FAILED


def test_spec_change_is_planned_at_once() -> None:
    cluster = a_failed_job()

    cluster.change(resources={"maxGPUs": 4})
    cluster.settle()

    assert attempts(cluster) == 2


def test_job_continues_once_the_planner_answers() -> None:
    cluster = a_failed_job()
    cluster.answer = a_plan()

    pass_pause(cluster)
    cluster.settle()
    cluster.make_ready()
    cluster.settle()

    assert cluster.job.status.phase == "Running"
    assert len(cluster.messages_of(EventReason.PLAN_INFEASIBLE)) == 1


def test_running_job_keeps_running_while_it_waits() -> None:
    cluster = a_running_job()
    cluster.answer = DIED

    cluster.change(rollout={"replicas": 3})
    cluster.settle()

    found = condition(cluster.job.status, ConditionType.DEGRADED)
    assert found
    assert found.reason == Reason.PLAN_DRIFT
    assert "tried again at" in found.message
    assert cluster.job.status.phase == "Running"
    before = attempts(cluster)
    pass_pause(cluster)
    cluster.settle()
    assert attempts(cluster) == before + 1
