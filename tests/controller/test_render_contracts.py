"""Launch contracts: each pod's own work, and what it knows of the other pods."""

from dataclasses import replace

import pytest

from hetrl_core.job.spec import TracesSpec
from hetrl_core.launch import from_json
from hetrl_core.plan.plan import Parallelism, Plan, Replica, Share
from hetrl_core.plan.pod_sets import pod_sets
from hetrl_core.plan.training_split import UNDIVIDED
from hetrl_core.task import Role, Task
from hetrl_operator.render import children
from tests.controller.deployments import APART, ROLLOUT, TRAINER, a_deployment, of_kind
from tests.controller.values import SETTINGS, a_group, a_plan


def test_contract_says_who_does_what_and_where_the_others_are() -> None:
    maps = of_kind(children(a_deployment(plan=a_plan(trainers=2))), "ConfigMap")

    launch = from_json(maps[f"math-{ROLLOUT}"]["data"]["launch.json"])

    assert str(launch.coordinator) == "math-coordinator-0.math.default.svc:7400"
    assert str(launch.weights) == f"math-{TRAINER}-0.math.default.svc:7401"
    assert (launch.training_split.num_replicas, launch.num_rollout_pods) == (2, 2)
    assert launch.concurrency == 16
    assert launch.model.source == "/hetrl/claims/data/model"
    assert launch.data.prompts == "/hetrl/claims/data/train.jsonl"
    assert launch.progress is None


def with_the_critic(*, is_first: bool) -> Plan:
    """The policy in two stages on two machines, its critic in three replicas elsewhere."""
    policy = a_group(
        Task.ACTOR_TRAINING,
        "A100-80GB",
        ("a100-0",),
        parallelism=Parallelism(tensor=1, stage_layers=(2, 1)),
        replicas=(
            Replica(
                shares=(Share(machine="a100-0", num_gpus=1), Share(machine="a100-1", num_gpus=1))
            ),
        ),
    )
    _, critic, *others = a_plan(critics=("l4-6", "l4-7", "l4-8")).groups
    critic = replace(critic, gpu_kind="A100-80GB")
    trainers = (critic, policy) if is_first else (policy, critic)
    return replace(a_plan(), groups=(*trainers, *others))


@pytest.mark.parametrize("is_first", [False, True], ids=["critic last", "critic first"])
def test_contracts_describe_the_split_and_address_of_a_critic_apart(
    is_first: bool,
) -> None:
    plan = with_the_critic(is_first=is_first)
    maps = of_kind(children(a_deployment(plan=plan)), "ConfigMap").values()
    found = [from_json(each["data"]["launch.json"]) for each in maps]

    (split,) = {each.training_split for each in found}
    (critic,) = {each.critic_split for each in found}
    assert (split.num_replicas, split.stage_layers) == (1, (2, 1))
    assert critic
    assert (critic.num_replicas, critic.stage_layers) == (3, UNDIVIDED.stage_layers)
    (policy,) = (each for each in pod_sets(plan) if Task.ACTOR_TRAINING in each.tasks)
    host = f"math-{policy.name}-0.math.default.svc"
    assert {str(each.rendezvous) for each in found} == {f"{host}:7402"}
    assert {str(each.weights) for each in found} == {f"{host}:7401"}
    trainers = [each for each in found if each.role is Role.TRAINER]
    assert {rank.task for each in trainers for rank in each.ranks} == {
        Task.ACTOR_TRAINING,
        Task.CRITIC_INFERENCE,
        Task.CRITIC_TRAINING,
    }


def test_critic_in_its_policys_processes_has_no_own_split() -> None:
    maps = of_kind(children(a_deployment()), "ConfigMap").values()
    assert {from_json(each["data"]["launch.json"]).critic_split for each in maps} == {None}


def test_contracts_say_what_inference_workers_do_and_where_they_listen() -> None:
    apart, together = (
        [from_json(each["data"]["launch.json"]) for each in of_kind(made, "ConfigMap").values()]
        for made in (children(a_deployment(plan=APART)), children(a_deployment()))
    )

    assert {each.inference_tasks for each in apart} == {(Task.REFERENCE_INFERENCE,)}
    assert {each.inference_tasks for each in together} == {()}
    assert {each.inference_port for each in apart} == {7403}
    (worker,) = [each for each in apart if each.role is Role.INFERENCE]
    assert [(rank.ordinal, rank.task) for rank in worker.ranks] == [
        (0, Task.REFERENCE_INFERENCE),
        (1, Task.REFERENCE_INFERENCE),
    ]


def test_pods_get_the_endpoint_of_traces() -> None:
    traces = {"endpoint": "http://otel-collector.monitoring:4318", "sampleRatio": 0.1}
    deployment = a_deployment(runtime={"telemetry": {"traces": traces}})

    for contracts, expected in (
        (deployment, TracesSpec(endpoint=traces["endpoint"], sample_ratio=0.1)),
        (a_deployment(), None),
    ):
        maps = of_kind(children(contracts), "ConfigMap").values()
        endpoints = {from_json(each["data"]["launch.json"]).traces for each in maps}
        assert endpoints == {expected}


def test_late_rollouts_are_not_limited_by_the_initial_number() -> None:
    algorithm = {"groupSize": 4, "globalBatchSize": 64, "maxStaleness": 2}
    maps = of_kind(children(a_deployment(algorithm=algorithm)), "ConfigMap")

    launch = from_json(maps["math-coordinator"]["data"]["launch.json"])

    # The bound never leases more than the three batches that it spans.
    assert launch.max_concurrent == 3 * 64


def test_coordinator_gets_the_address_of_its_reports() -> None:
    maps = of_kind(children(a_deployment()), "ConfigMap")

    launch = from_json(maps["math-coordinator"]["data"]["launch.json"])

    assert launch.progress
    assert launch.progress.url == (
        "https://hetrl-operator.hetrl-system.svc:9443/v1/namespaces/default/hetrljobs/math/progress"
    )
    assert maps["math-coordinator"]["data"]["operator-ca.crt"] == SETTINGS.progress_authority
