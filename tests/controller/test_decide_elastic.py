"""Changes under a running job on the model of a cluster: scale, spec, plan, nodes."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from hetrl_core.plan.plan import Infeasible
from hetrl_core.task import Role
from hetrl_operator.decide.plan.drift import machine_drift
from hetrl_operator.decide.pods.replacements import is_lost
from hetrl_operator.model.actions import Delete, RemoveSchedulingGate, StartPlanning
from hetrl_operator.model.conditions import condition
from hetrl_operator.model.plan_selection import newest
from hetrl_operator.model.reasons import ConditionType, EventReason, Reason
from tests.controller.cluster_model import ClusterModel, a_running_job, reason_of, uids
from tests.controller.values import a_job, a_plan, a_plan_seen, later

TRAINER, ROLLOUT = "math-trainer-a100-80gb-0", "math-rollout-l4-0"
INFERENCE = "math-inference-l4-0"


def let_settle(cluster: ClusterModel) -> None:
    """Let pods start as often as the operator makes some."""
    for _ in range(10):
        cluster.pass_time(seconds=2)
        cluster.settle()
        cluster.make_ready()
    cluster.settle()


def same(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name, uid in before.items() if after.get(name) == uid}


@pytest.mark.parametrize(
    "machines",
    [
        pytest.param(("l4-0", "l4-0", "l4-1"), id="more"),
        pytest.param(("l4-0",), id="fewer"),
        pytest.param(("l4-0", "l4-0", "l4-1", "l4-2", "l4-2"), id="many-more"),
    ],
)
def test_rollout_count_change_touches_no_remaining_pod(machines: tuple[str, ...]) -> None:
    cluster = a_running_job()
    before = uids(cluster)
    cluster.answer = a_plan(rollouts=machines)

    cluster.change(rollout={"replicas": len(machines)})
    let_settle(cluster)

    after = uids(cluster)
    assert len(uids(cluster, Role.ROLLOUT)) == len(machines)
    assert same(before, after) == before.keys() & after.keys()
    assert cluster.job.status.phase == "Running"
    assert cluster.job.status.restarts == 0
    assert cluster.messages_of(EventReason.SCALED_ROLLOUT) == [f"2 -> {len(machines)} rollout pods"]
    assert len(cluster.plans) == 2
    assert cluster.past == [name for name in cluster.plans if name != cluster.followed.name]


def test_planner_is_asked_to_keep_the_trainer() -> None:
    cluster = a_running_job()
    (known,) = cluster.plans.values()

    cluster.change(rollout={"replicas": 3})
    cluster.round()

    (asked,) = [each for each in cluster.written if isinstance(each, StartPlanning)][1:]
    assert asked.current == known.plan
    assert asked.keeps_trainer
    assert asked.request_id


def test_infeasible_change_leaves_the_job_as_it_is() -> None:
    cluster = a_running_job()
    before = uids(cluster)
    cluster.answer = Infeasible(reasons=("there are 8 GPUs",))

    cluster.change(rollout={"replicas": 500})
    cluster.settle()

    assert uids(cluster) == before
    assert cluster.job.status.phase == "Running"
    found = condition(cluster.job.status, ConditionType.DEGRADED)
    assert found
    assert found.reason == Reason.PLAN_DRIFT
    assert found.message == "the spec has changed; there are 8 GPUs"


def test_trainer_shape_change_restarts_the_gang_and_leaves_rollouts() -> None:
    cluster = a_running_job()
    before = uids(cluster)
    cluster.answer = a_plan(trainers=2)

    cluster.change(resources={"maxGPUs": 4})
    let_settle(cluster)

    assert len(uids(cluster, Role.TRAINER)) == 2
    stays = {name for name in before if "trainer" not in name}
    assert same(before, uids(cluster)) == stays
    assert cluster.job.status.phase == "Running"


@pytest.mark.parametrize(
    ("change", "replaced"),
    [
        pytest.param({"startupDeadlineSeconds": 60}, set(), id="in-place"),
        pytest.param(
            {"training": {"steps": 10, "learningRate": 1e-5}},
            {Role.COORDINATOR, Role.TRAINER},
            id="training",
        ),
        pytest.param(
            {"runtime": {"images": {"rollout": "mine:2"}}}, {Role.ROLLOUT}, id="rollout-image"
        ),
        pytest.param(
            {"runtime": {"podTemplate": {"env": [{"name": "A", "value": "b"}]}}},
            set(Role),
            id="everything",
        ),
        pytest.param(
            {"runtime": {"images": {"inference": "mine:2"}}}, {Role.INFERENCE}, id="inference-image"
        ),
    ],
)
def test_changed_spec_replaces_the_pods_that_it_concerns(
    change: dict[str, Any], replaced: set[Role]
) -> None:
    cluster = a_running_job(rollouts=("l4-0",) * 4, inference=("l4-8",) * 4)
    before = uids(cluster)

    cluster.change(**change)
    let_settle(cluster)

    gone = before.keys() - same(before, uids(cluster))
    assert gone == {name for name in before if cluster.pods[name].role in replaced}
    assert cluster.job.status.phase == "Running"


@pytest.mark.parametrize("role", ["rollout", "inference"])
def test_outdated_workers_go_a_few_at_a_time(role: str) -> None:
    cluster = a_running_job(rollouts=("l4-0",) * 8, inference=("l4-9",) * 8)

    cluster.change(runtime={"images": {role: "mine:2"}})
    actions = cluster.round()

    gone = [each.name for each in actions if isinstance(each, Delete)]
    assert [role in name for name in gone] == [True, True]


def test_coordinator_stays_until_outdated_trainers_have_stopped() -> None:
    cluster = a_running_job()
    cluster.change(training={"steps": 10, "learningRate": 1e-5})

    first = [each.name for each in cluster.round() if isinstance(each, Delete)]
    second = cluster.round()

    assert first == [f"{TRAINER}-0"]
    assert [each.name for each in second if isinstance(each, Delete)] == ["math-coordinator-0"]
    assert not [each for each in second if isinstance(each, RemoveSchedulingGate)]


def test_pods_of_an_earlier_release_are_left_as_they_are() -> None:
    cluster = a_running_job()
    cluster.pods = {name: replace(pod, restart_hash="") for name, pod in cluster.pods.items()}
    before = uids(cluster)

    cluster.change(runtime={"images": {"rollout": "mine:2"}})
    let_settle(cluster)

    assert uids(cluster) == before


def lose(cluster: ClusterModel, node: str) -> None:
    cluster.lost_nodes = {node: cluster.now}
    cluster.pods = {
        name: replace(pod, is_ready=False) if pod.node == node else pod
        for name, pod in cluster.pods.items()
    }


def test_pods_on_a_lost_node_are_replaced_by_force() -> None:
    cluster = a_running_job(a_job(failurePolicy={"nodeLostSeconds": 60}), rollouts=("l4-0", "l4-1"))
    before = uids(cluster)
    cluster.answer = a_plan(rollouts=("l4-0", "l4-2"))
    lose(cluster, "l4-1")

    cluster.settle()
    assert uids(cluster) == before
    assert reason_of(cluster, ConditionType.DEGRADED) == Reason.NODE_LOST
    assert cluster.wake_after_seconds is not None
    assert cluster.wake_after_seconds <= 60
    cluster.pass_time(seconds=60)
    actions = cluster.round()
    forced = [each for each in actions if isinstance(each, Delete) and each.kind == "Pod"]
    assert [(each.name, each.is_forced) for each in forced] == [(f"{ROLLOUT}-1", True)]
    let_settle(cluster)

    assert {pod.node for pod in cluster.pods.values() if pod.role is Role.ROLLOUT} == {
        "l4-0",
        "l4-2",
    }
    assert cluster.job.status.phase == "Running"
    assert same(before, uids(cluster)) == before.keys() - {f"{ROLLOUT}-1"}
    assert "l4-1 does not answer" in cluster.messages_of(EventReason.REPLANNED)[0]


@pytest.mark.parametrize(("seconds", "lost"), [(59, False), (60, True)])
def test_node_is_lost_when_its_time_is_reached(seconds: int, *, lost: bool) -> None:
    """Its pods are deleted and another plan is searched at the same moment."""
    cluster = a_running_job(a_job(failurePolicy={"nodeLostSeconds": 60}))
    lose(cluster, "l4-0")

    seen, now = cluster.observe(), cluster.now + timedelta(seconds=seconds)

    assert is_lost(seen, "l4-0", now) is lost
    assert (machine_drift(seen, cluster.followed, now) is not None) is lost


def test_node_that_comes_back_in_time_costs_nothing() -> None:
    cluster = a_running_job(a_job(failurePolicy={"nodeLostSeconds": 60}))
    before = uids(cluster)
    lose(cluster, "l4-0")
    cluster.pass_time(seconds=50)
    cluster.settle()

    cluster.lost_nodes = {}
    cluster.make_ready()
    cluster.pass_time(seconds=50)
    cluster.settle()

    assert uids(cluster) == before
    assert cluster.job.status.phase == "Running"


def test_trainers_lost_node_moves_the_gang_to_another() -> None:
    cluster = a_running_job(a_job(failurePolicy={"nodeLostSeconds": 60}), trainers=2)
    rollouts = uids(cluster, Role.ROLLOUT)
    cluster.answer = a_plan(trainers=2, machine="a100-7")
    lose(cluster, "a100-0")
    cluster.pass_time(seconds=61)
    let_settle(cluster)

    trainers = [pod for pod in cluster.pods.values() if pod.role is Role.TRAINER]
    assert {pod.node for pod in trainers} == {"a100-7"}
    assert uids(cluster, Role.ROLLOUT) == rollouts
    assert cluster.job.status.phase == "Running"
    assert "from its last checkpoint" in cluster.messages_of(EventReason.REPLANNED)[0]


@pytest.mark.parametrize("stuck", [f"{ROLLOUT}-1", f"{INFERENCE}-1"])
def test_worker_that_stays_stuck_is_replaced_once_in_its_time(stuck: str) -> None:
    cluster = a_running_job(a_job(startupDeadlineSeconds=100), inference=("l4-8", "l4-9"))
    cluster.pods[stuck] = replace(cluster.pods[stuck], is_ready=False)
    cluster.settle()
    before = uids(cluster)

    cluster.pass_time(seconds=100)
    cluster.settle()

    assert before.keys() - same(before, uids(cluster)) == {stuck}
    assert len(cluster.messages_of(EventReason.POD_REPLACED)) == 1


def test_rule_asks_for_another_plan() -> None:
    rule = {"role": "trainer", "action": "Replan", "onReasons": ["OOMKilled"]}
    cluster = a_running_job(a_job(failurePolicy={"rules": [rule]}))
    cluster.pass_time(seconds=5)
    cluster.answer = a_plan(trainers=2)

    cluster.crash(f"{TRAINER}-0", 137, reason="OOMKilled")
    let_settle(cluster)

    assert len(uids(cluster, Role.TRAINER)) == 2
    assert cluster.job.status.phase == "Running"
    assert (
        "a rule of spec.failurePolicy asks for another plan"
        in (cluster.messages_of(EventReason.REPLANNED)[0])
    )
    asked = [each for each in cluster.written if isinstance(each, StartPlanning)]
    assert not asked[-1].keeps_trainer


def test_restored_spec_gets_a_plan_in_place_of_the_last() -> None:
    cluster = a_running_job()
    first = cluster.answer
    cluster.answer = a_plan(rollouts=("l4-0", "l4-0", "l4-1"))
    cluster.change(rollout={"replicas": 3})
    let_settle(cluster)

    cluster.answer = first
    cluster.change()
    let_settle(cluster)

    assert cluster.followed.plan == first
    assert len(cluster.plans) == 3, "a name that comes back is another plan's"
    assert len(uids(cluster, Role.ROLLOUT)) == 2
    assert cluster.job.status.phase == "Running"


def test_replacing_plan_is_newest_among_plans_of_one_second() -> None:
    job = a_job()
    old = a_plan_seen(job, name="math-zzz")
    new = replace(a_plan_seen(job, name="math-aaa"), replaces="math-zzz")

    assert newest((old, new)) is new
    assert newest((new, old)) is new
    # A name that came back: only time tells.
    later_again = replace(old, replaces="math-aaa", created_at=later(seconds=5))
    assert newest((new, later_again)) is later_again
