"""Failures on the model of a cluster: restarts, their limits and the policy's rules."""

from typing import Any

import pytest

from hetrl_core.task import Role
from hetrl_operator.model.actions import Delete, RemoveSchedulingGate
from hetrl_operator.model.conditions import condition
from hetrl_operator.model.reasons import ConditionType, EventReason, Reason
from tests.controller.cluster_model import ClusterModel, a_running_job, reason_of, uids
from tests.controller.values import a_job

TRAINER, ROLLOUT = "math-trainer-a100-80gb-0", "math-rollout-l4-0"
INFERENCE = "math-inference-l4-0"
COORDINATOR = "math-coordinator-0"


def with_policy(
    *rules: dict[str, Any], trainers: int = 1, inference: tuple[str, ...] = (), **policy: Any
) -> ClusterModel:
    job = a_job(failurePolicy={"rules": list(rules), **policy})
    return a_running_job(job, trainers=trainers, inference=inference)


def crash_and_recover(cluster: ClusterModel, pod: str, code: int = 1) -> None:
    cluster.pass_time(seconds=5)
    cluster.crash(pod, code, "CUDA out of memory")
    cluster.settle()
    cluster.make_ready()
    cluster.settle()


def replaced(cluster: ClusterModel, before: dict[str, str]) -> set[str]:
    return {name for name, uid in uids(cluster).items() if before.get(name) != uid}


def test_crash_with_another_code_is_only_counted() -> None:
    cluster = a_running_job()

    cluster.crash("math-trainer-a100-80gb-0-0", 1, "CUDA out of memory")
    cluster.settle()

    assert cluster.job.status.phase == "Restarting"
    assert cluster.job.status.restarts == 1
    cluster.make_ready()
    cluster.settle()
    assert cluster.job.status.phase == "Running"


@pytest.mark.parametrize("trainers", [1, 2])
def test_trainers_that_end_well_are_no_failures(trainers: int) -> None:
    cluster = a_running_job(trainers=trainers)
    cluster.change(failurePolicy={"maxRestarts": 0})
    before = {pod.uid for pod in cluster.pods.values()}

    for name in [each for each in cluster.pods if "trainer" in each]:
        cluster.crash(name, 0)
    cluster.settle()

    assert cluster.job.status.phase == "Restarting"
    assert {pod.uid for pod in cluster.pods.values()} == before


def test_excess_restarts_fail_the_job_with_the_last_message() -> None:
    cluster = a_running_job()

    for _ in range(4):
        cluster.crash("math-trainer-a100-80gb-0-0", 1, "CUDA out of memory")
        cluster.settle()

    found = condition(cluster.job.status, ConditionType.FAILED)
    assert found
    assert found.reason == Reason.BACKOFF_LIMIT_EXCEEDED
    assert "CUDA out of memory" in found.message


def test_lost_rollouts_never_fail_a_job() -> None:
    cluster = a_running_job()

    for _ in range(30):
        cluster.kill("math-rollout-l4-0-1")
        cluster.settle()
        cluster.make_ready()
        cluster.settle()

    assert cluster.job.status.phase == "Running"
    assert cluster.job.status.restarts == 0


def test_replaced_rollout_starts_while_the_others_run() -> None:
    cluster = a_running_job()
    others = {pod.uid for name, pod in cluster.pods.items() if name != "math-rollout-l4-0-1"}

    cluster.kill("math-rollout-l4-0-1")
    cluster.settle()

    assert not any(pod.is_gated for pod in cluster.pods.values())
    assert others <= {pod.uid for pod in cluster.pods.values()}
    assert reason_of(cluster, ConditionType.DEGRADED) == Reason.ROLLOUT_BELOW_DESIRED


def test_lost_trainer_restarts_its_gang_and_leaves_the_rollouts() -> None:
    cluster = a_running_job(trainers=3)
    before = {name: pod.uid for name, pod in cluster.pods.items()}

    cluster.kill("math-trainer-a100-80gb-0-1")
    cluster.settle()

    after = {name: pod.uid for name, pod in cluster.pods.items()}
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {f"math-trainer-a100-80gb-0-{number}" for number in range(3)}
    assert not any(pod.is_gated for pod in cluster.pods.values())
    assert cluster.job.status.restarts == 1


def test_crashed_trainer_restarts_its_gang_too() -> None:
    cluster = a_running_job(trainers=2)
    before = {pod.uid for pod in cluster.pods.values() if pod.role is Role.TRAINER}

    cluster.crash("math-trainer-a100-80gb-0-0", 1)
    cluster.settle()

    after = {pod.uid for pod in cluster.pods.values() if pod.role is Role.TRAINER}
    assert not before & after


def test_pods_starting_in_the_second_of_a_restart_are_excluded() -> None:
    """Status keeps whole seconds, and a reconcile may take less than one."""
    cluster = a_running_job(trainers=2)
    before = set(uids(cluster, Role.TRAINER).values())
    cluster.crash("math-trainer-a100-80gb-0-0", 1)
    while before & set(uids(cluster, Role.TRAINER).values()):
        cluster.round(after_seconds=0)
    started = uids(cluster, Role.TRAINER)

    for _ in range(5):
        cluster.round(after_seconds=0)

    assert uids(cluster, Role.TRAINER) == started
    assert not any(pod.is_gated for pod in cluster.pods.values())


def test_trainer_gang_that_keeps_crashing_reaches_the_limit() -> None:
    cluster = a_running_job(trainers=2)

    for _ in range(6):
        if cluster.job.status.phase == "Failed":
            break
        cluster.crash("math-trainer-a100-80gb-0-0", 1)
        cluster.settle()
        cluster.make_ready()
        cluster.settle()

    assert reason_of(cluster, ConditionType.FAILED) == Reason.BACKOFF_LIMIT_EXCEEDED


@pytest.mark.parametrize(
    ("rule", "pod", "again"),
    [
        pytest.param({"role": "trainer", "action": "RestartPod"}, f"{TRAINER}-0", set(), id="pod"),
        pytest.param(
            {"role": "trainer", "action": "RestartRole"},
            f"{TRAINER}-0",
            {Role.TRAINER},
            id="trainer",
        ),
        pytest.param(
            {"role": "rollout", "action": "RestartRole"},
            f"{ROLLOUT}-1",
            {Role.ROLLOUT},
            id="rollouts",
        ),
        pytest.param(
            {"role": "inference", "action": "RestartRole"},
            f"{INFERENCE}-0",
            {Role.INFERENCE},
            id="inference",
        ),
        pytest.param(
            {"role": "coordinator", "action": "RestartJob"}, COORDINATOR, set(Role), id="job"
        ),
        pytest.param(
            {"role": "trainer", "action": "RestartJob", "onExitCodes": [7]},
            f"{TRAINER}-0",
            set(),
            id="another-exit-code",
        ),
        pytest.param(
            {"role": "rollout", "action": "RestartJob"}, f"{TRAINER}-0", set(), id="another-role"
        ),
        pytest.param(
            {"role": "trainer", "action": "RestartJob", "onReasons": ["OOMKilled"]},
            f"{TRAINER}-0",
            set(),
            id="another-reason",
        ),
    ],
)
def test_rule_says_which_pods_start_again(rule: dict[str, Any], pod: str, again: set[Role]) -> None:
    cluster = with_policy(rule, inference=("l4-9",))
    before = uids(cluster)

    crash_and_recover(cluster, pod)

    assert cluster.job.status.phase == "Running"
    assert {cluster.pods[name].role for name in replaced(cluster, before)} == again
    assert replaced(cluster, before) == {
        name for name, each in cluster.pods.items() if each.role in again
    }


@pytest.mark.parametrize(
    ("action", "pod", "reason"),
    [
        pytest.param("RestartRole", f"{TRAINER}-0", EventReason.TRAINER_RESTARTED, id="trainers"),
        pytest.param("RestartRole", f"{ROLLOUT}-0", EventReason.ROLE_RESTARTED, id="rollouts"),
        pytest.param("RestartJob", f"{TRAINER}-0", EventReason.JOB_RESTARTED, id="the-job"),
        pytest.param("RestartPod", f"{TRAINER}-0", None, id="a-pod"),
    ],
)
def test_restart_of_more_than_a_pod_is_announced(action: str, pod: str, reason: str | None) -> None:
    cluster = with_policy(
        {"role": "trainer", "action": action}, {"role": "rollout", "action": action}
    )

    crash_and_recover(cluster, pod)

    restarts = {
        EventReason.TRAINER_RESTARTED,
        EventReason.ROLE_RESTARTED,
        EventReason.JOB_RESTARTED,
    }
    announced = [each.reason for each in cluster.events if each.reason in restarts]
    assert announced == ([reason] if reason else [])


def test_rule_may_fail_the_job_for_an_exit_code() -> None:
    cluster = with_policy(
        {"name": "no-data", "role": "trainer", "action": "Fail", "onExitCodes": [42]}
    )

    crash_and_recover(cluster, f"{TRAINER}-0", 1)
    assert cluster.job.status.phase == "Running"
    crash_and_recover(cluster, f"{TRAINER}-0", 42)

    failed = condition(cluster.job.status, ConditionType.FAILED)
    assert failed
    assert failed.reason == Reason.FAILURE_POLICY
    assert failed.message.startswith("no-data of spec.failurePolicy.rules: math-trainer")


def test_rule_may_forgive_what_would_end_the_job() -> None:
    cluster = with_policy({"role": "trainer", "action": "RestartPod", "onExitCodes": [3]})

    crash_and_recover(cluster, f"{TRAINER}-0", 3)

    assert cluster.job.status.phase == "Running"
    assert cluster.job.status.restarts == 1


def test_first_rule_that_fits_counts() -> None:
    cluster = with_policy(
        {"role": "trainer", "action": "RestartPod", "onExitCodes": [1]},
        {"role": "trainer", "action": "Fail"},
    )

    crash_and_recover(cluster, f"{TRAINER}-0", 1)
    assert cluster.job.status.phase == "Running"
    crash_and_recover(cluster, f"{TRAINER}-0", 2)

    assert reason_of(cluster, ConditionType.FAILED) == Reason.FAILURE_POLICY


def test_rule_has_its_own_limit_that_others_do_not_use() -> None:
    cluster = with_policy(
        {"name": "flaky", "role": "rollout", "action": "RestartPod", "maxRestarts": 2},
        maxRestarts=0,
    )

    for _ in range(2):
        crash_and_recover(cluster, f"{ROLLOUT}-0")
    assert cluster.job.status.phase == "Running"
    assert cluster.job.status.restarts == 0
    crash_and_recover(cluster, f"{ROLLOUT}-1")

    failed = condition(cluster.job.status, ConditionType.FAILED)
    assert failed
    assert failed.reason == Reason.BACKOFF_LIMIT_EXCEEDED
    assert failed.message.startswith("3 restarts by flaky, its maxRestarts is 2")


def test_restarts_within_the_window_count() -> None:
    cluster = with_policy(maxRestarts=1, windowSeconds=600)

    for _ in range(5):
        crash_and_recover(cluster, f"{TRAINER}-0")
        cluster.pass_time(seconds=700)
    assert cluster.job.status.phase == "Running"
    assert cluster.job.status.restarts == 5
    crash_and_recover(cluster, f"{TRAINER}-0")
    crash_and_recover(cluster, f"{TRAINER}-0")

    failed = condition(cluster.job.status, ConditionType.FAILED)
    assert failed
    assert "2 restarts within 600 s, spec.failurePolicy.maxRestarts is 1" in failed.message


def test_gang_that_falls_together_is_one_restart() -> None:
    cluster = with_policy(trainers=4)
    cluster.pass_time(seconds=5)

    for number in range(4):
        cluster.crash(f"{TRAINER}-{number}", 1)
    cluster.settle()

    assert cluster.job.status.restarts == 1
    assert len(cluster.messages_of(EventReason.TRAINER_RESTARTED)) == 1


def test_new_trainer_waits_for_the_decision_about_the_gangs_restart() -> None:
    cluster = with_policy(trainers=2)
    before = uids(cluster, Role.TRAINER)
    cluster.pass_time(seconds=5)
    cluster.kill(f"{TRAINER}-0")

    # A record within the second of the new pod's creation would have the same time.
    assert not [
        each
        for each in cluster.round(after_seconds=0.1)
        if isinstance(each, RemoveSchedulingGate | Delete)
    ]
    assert cluster.wake_after_seconds is not None
    assert cluster.wake_after_seconds <= 1
    cluster.settle()

    assert not set(before.values()) & set(uids(cluster, Role.TRAINER).values())
    assert cluster.job.status.restarts == 1


def test_recorded_restart_is_applied_by_the_next_leader() -> None:
    cluster = with_policy({"role": "trainer", "action": "RestartRole"})
    before = uids(cluster)
    cluster.pass_time(seconds=5)
    cluster.crash(f"{TRAINER}-0", 1)
    decision_written = cluster.round_without_actions()
    assert decision_written

    cluster.settle()

    assert replaced(cluster, before) == {f"{TRAINER}-0"}
    assert cluster.job.status.restarts == 1


def test_restarts_counted_by_an_earlier_release_are_not_recounted() -> None:
    cluster = with_policy()
    crash_and_recover(cluster, f"{TRAINER}-0")
    status = cluster.job.status.model_copy(update={"restarts": 3, "recent_restarts": ()})
    cluster.set_status(status)

    cluster.settle()

    assert cluster.job.status.phase == "Running"
    assert cluster.job.status.restarts == 3
