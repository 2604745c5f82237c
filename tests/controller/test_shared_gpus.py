"""Pods whose GPUs do several roles' work: one pod, one container, a program for each role."""

from dataclasses import replace
from typing import Any

import pytest

from hetrl_core.launch import Launch, from_json
from hetrl_core.plan.plan import Plan
from hetrl_core.plan.pod_sets import pod_sets
from hetrl_core.task import Role, Task
from hetrl_operator.decide.plan.pod_diff import moves
from hetrl_operator.model.reasons import ConditionType, Reason
from hetrl_operator.render import children
from hetrl_operator.render.restart import restart_hash
from tests.controller.cluster_model import ClusterModel, a_cluster, reason_of, uids
from tests.controller.deployments import a_deployment, container_of, of_kind, pod_of
from tests.controller.values import a_job, a_plan

TRAINER, ROLLOUT = "trainer-a100-80gb-0", "rollout-l4-0"


def together(*beside: Task, concurrency: int = 16) -> Plan:
    """Generation, and what else is named, on the GPUs that train."""
    plan = a_plan()
    tasks = (Task.ACTOR_GENERATION, *beside, Task.ACTOR_TRAINING)
    (trains, *_) = plan.groups
    return replace(plan, groups=(replace(trains, tasks=tasks, concurrency=concurrency),))


def scored_by_rollouts() -> Plan:
    plan = a_plan()
    trains, generates = plan.groups
    tasks = (Task.ACTOR_GENERATION, Task.REFERENCE_INFERENCE, Task.REWARD_INFERENCE)
    return replace(plan, groups=(trains, replace(generates, tasks=tasks)))


def contracts(plan: Plan) -> dict[str, Launch]:
    maps = of_kind(children(a_deployment(plan=plan)), "ConfigMap")
    return {name: from_json(each["data"]["launch.json"]) for name, each in maps.items()}


def ports(container: dict[str, Any]) -> dict[str, int]:
    return {each["name"]: each["containerPort"] for each in container["ports"]}


def counts(cluster: ClusterModel) -> str | None:
    status = cluster.job.status.rollout
    return status.summary if status else None


@pytest.mark.parametrize(
    ("plan", "name", "wanted"),
    [
        pytest.param(
            together(),
            TRAINER,
            {"weights": 7401, "rendezvous": 7402, "metrics": 9090, "metrics-rollout": 9091},
            id="training and generation",
        ),
        pytest.param(
            together(Task.REWARD_INFERENCE),
            TRAINER,
            {
                "weights": 7401,
                "rendezvous": 7402,
                "inference": 7403,
                "metrics": 9090,
                "metrics-rollout": 9091,
                "metrics-scores": 9092,
            },
            id="training, generation and rewards",
        ),
        pytest.param(
            together(Task.REFERENCE_INFERENCE),
            TRAINER,
            {"weights": 7401, "rendezvous": 7402, "metrics": 9090, "metrics-rollout": 9091},
            id="training and generation, the reference in the trainer's processes",
        ),
        pytest.param(
            scored_by_rollouts(),
            ROLLOUT,
            {"inference": 7403, "metrics": 9090, "metrics-scores": 9092},
            id="generation and what is asked of inference workers",
        ),
    ],
)
def test_pod_has_a_port_for_each_of_its_programs(
    plan: Plan, name: str, wanted: dict[str, int]
) -> None:
    container = container_of(a_deployment(plan=plan), name)

    assert ports(container) == wanted
    # Prometheus and the API server refuse longer names.
    assert max(map(len, wanted)) <= 15
    contract = contracts(plan)[f"math-{name}"]
    assert (contract.metrics_port, *contract.more_metrics_ports) == tuple(
        port for each, port in wanted.items() if each.startswith("metrics")
    )


def test_trainer_that_generates_runs_in_the_rollouts_image() -> None:
    images = {"trainer": "registry/trainer:1", "rollout": "registry/rollout:1"}
    deployment = a_deployment(plan=together(), runtime={"images": images})

    container = container_of(deployment, TRAINER)

    assert container["image"] == "registry/rollout:1"
    assert container["command"][:2] == ["hetrl", "trainer"]
    # It keeps checkpoints, and has as long for the last one as any trainer.
    mounted = {each["name"] for each in container["volumeMounts"]}
    assert {"hetrl-checkpoints", "hetrl-shm"} <= mounted
    assert pod_of(deployment, TRAINER)["spec"]["terminationGracePeriodSeconds"] == 180


def test_contracts_count_rollouts_wherever_they_are() -> None:
    contract = contracts(together(concurrency=24))

    assert {each.num_rollout_pods for each in contract.values()} == {1}
    assert contract[f"math-{TRAINER}"].concurrency == 24
    assert not any(each.inference_tasks for each in contract.values())
    asked = (Task.REFERENCE_INFERENCE, Task.REWARD_INFERENCE)
    assert {each.inference_tasks for each in contracts(scored_by_rollouts()).values()} == {asked}


def test_trainers_that_generate_are_restarted_for_another_concurrency() -> None:
    found = []
    for concurrency in (16, 24):
        deployment = a_deployment(plan=together(concurrency=concurrency))
        pods = next(each for each in deployment.sets if each.role is Role.TRAINER)
        found.append(restart_hash(deployment, pods))

    assert found[0] != found[1]


def test_job_with_all_rollouts_in_trainers_reports_them_ready() -> None:
    cluster = a_cluster(a_job(), together())
    cluster.settle()
    assert len(uids(cluster, Role.TRAINER)) == 1
    assert not uids(cluster, Role.ROLLOUT)
    assert counts(cluster) == "0/1 in trainers"

    cluster.make_ready()
    cluster.settle()

    assert cluster.job.status.phase == "Running"
    assert reason_of(cluster, ConditionType.ROLLOUT_READY) == Reason.ALL_READY
    assert counts(cluster) == "1/1 in trainers"


def test_rollout_change_on_the_trainers_gpus_moves_the_trainer() -> None:
    found = moves(a_plan(), together())

    assert found.moves_trainer
    assert pod_sets(together())[1].programs == (Role.TRAINER, Role.ROLLOUT)
