"""A critic on GPUs of its own: its pods are trainers, which start, stop and move together."""

from dataclasses import replace

import pytest

from hetrl_core.task import Role
from hetrl_operator.decide.plan.pod_diff import moves
from hetrl_operator.model.reasons import ConditionType, Reason
from tests.controller.cluster_model import a_cluster, a_running_job, reason_of, uids
from tests.controller.values import a_job, a_plan

POLICY, FIRST, SECOND = "math-trainer-a100-80gb-0-0", "math-trainer-l4-0-0", "math-trainer-l4-0-1"
CRITICS = ("l4-8", "l4-9")
PPO = {"type": "PPO"}


def test_policy_and_critic_are_one_gang() -> None:
    cluster = a_cluster(a_job(algorithm=PPO), a_plan(critics=CRITICS))

    cluster.settle()

    assert set(uids(cluster, Role.TRAINER)) == {POLICY, FIRST, SECOND}
    assert {cluster.pods[each].node for each in (FIRST, SECOND)} == set(CRITICS)
    cluster.make_ready()
    cluster.settle()
    assert cluster.job.status.phase == "Running"
    assert cluster.job.status.trainer
    assert cluster.job.status.trainer.summary == "3/3"


@pytest.mark.parametrize("name", [POLICY, FIRST])
@pytest.mark.parametrize("is_lost", [False, True], ids=["crashed", "lost"])
def test_failure_restarts_policy_and_critic_together(name: str, is_lost: bool) -> None:
    cluster = a_running_job(a_job(algorithm=PPO), critics=CRITICS)
    before = uids(cluster)
    cluster.pass_time(seconds=5)

    if is_lost:
        cluster.kill(name)
    else:
        cluster.crash(name, 1)
    for _ in range(3):
        cluster.settle()
        cluster.make_ready()
        cluster.pass_time(seconds=2)
    cluster.settle()

    after = uids(cluster)
    again = {each for each, uid in before.items() if after[each] != uid}
    assert again == {POLICY, FIRST, SECOND}
    assert cluster.job.status.restarts == 1
    assert cluster.job.status.phase == "Running"


def test_job_does_not_run_without_its_critic() -> None:
    cluster = a_running_job(a_job(algorithm=PPO), critics=CRITICS)
    cluster.pods[SECOND] = replace(cluster.pods[SECOND], is_ready=False)
    cluster.settle()
    assert reason_of(cluster, ConditionType.TRAINER_READY) == Reason.STARTING


@pytest.mark.parametrize(
    ("critics", "is_moved"),
    [
        pytest.param(CRITICS, False, id="the-same"),
        pytest.param(("l4-8", "l4-7"), True, id="another-machine"),
        pytest.param(("l4-8",), True, id="fewer-replicas"),
        pytest.param((), True, id="to-its-policy"),
    ],
)
def test_critic_that_moves_moves_the_trainer(critics: tuple[str, ...], is_moved: bool) -> None:
    found = moves(a_plan(critics=CRITICS), a_plan(critics=critics))
    assert found.moves_trainer is is_moved
    assert found.num_stopped == (3 if is_moved else 0)
    assert found.num_started == (1 + len(critics) if is_moved else 0)
