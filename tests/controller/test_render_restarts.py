"""Restarts: whose pods a change replaces, and whose it leaves alone."""

from dataclasses import replace
from typing import Any

import pytest

from hetrl_core.plan.plan import Parallelism, Replica, Share
from hetrl_core.task import Role, Task
from hetrl_operator.render import Deployment, identity
from hetrl_operator.render.restart import restart_hash
from tests.controller.deployments import APART, a_deployment
from tests.controller.values import a_group, a_plan

OF_EVERY_JOB = set(Role) - {Role.INFERENCE}


def restart_hashes(deployment: Deployment) -> dict[Role, str]:
    return {each.role: restart_hash(deployment, each) for each in deployment.sets}


def restarted_by(before: dict[str, Any], after: dict[str, Any]) -> set[Role]:
    """The roles whose pods are others after a change, of those that there were."""
    first, second = restart_hashes(a_deployment(**before)), restart_hashes(a_deployment(**after))
    return {role for role, found in first.items() if found != second.get(role)}


def test_pods_of_an_earlier_release_are_not_restarted() -> None:
    assert restart_hashes(a_deployment()) == {
        Role.COORDINATOR: "a1bf7ef72ac2b0ec",
        Role.TRAINER: "3079aa7df6ad96f8",
        Role.ROLLOUT: "b27fb1560338935b",
    }
    assert identity(a_deployment()) == "dea91954791b1adf"


@pytest.mark.parametrize(
    ("changes", "restarted"),
    [
        pytest.param({"plan": a_plan(rollouts=("l4-0", "l4-7"))}, set(), id="another-machine"),
        pytest.param({"plan": a_plan(rollouts=("l4-0",))}, set(), id="fewer-rollouts"),
        pytest.param({"plan": a_plan(rollouts=("l4-0",) * 3)}, set(), id="more-rollouts"),
        pytest.param({"rollout": {"replicas": 4}}, set(), id="scaled"),
        pytest.param({"startupDeadlineSeconds": 60}, set(), id="deadline"),
        pytest.param({"failurePolicy": {"maxRestarts": 0}}, set(), id="failure-policy"),
        pytest.param({"plan": a_plan(trainers=2)}, {Role.TRAINER}, id="more-trainers"),
        pytest.param({"training": {"steps": 11}}, {Role.COORDINATOR, Role.TRAINER}, id="training"),
        pytest.param(
            {"runtime": {"images": {"rollout": "mine:1"}}}, {Role.ROLLOUT}, id="one-image"
        ),
        pytest.param(
            {"runtime": {"podTemplate": {"resources": {"trainer": {"cpu": "4"}}}}},
            {Role.TRAINER},
            id="resources-of-one-role",
        ),
        pytest.param(
            {"runtime": {"podTemplate": {"env": [{"name": "A", "value": "b"}]}}},
            OF_EVERY_JOB,
            id="environment",
        ),
        pytest.param(
            {"runtime": {"telemetry": {"traces": {"endpoint": "http://otel:4318"}}}},
            OF_EVERY_JOB,
            id="traces",
        ),
    ],
)
def test_pods_are_restarted_for_what_concerns_them_and_nothing_else(
    changes: dict[str, Any], restarted: set[Role]
) -> None:
    assert restarted_by({}, changes) == restarted


def test_pods_go_on_when_allowed_changes_are_removed() -> None:
    kept = {"persistentVolumeClaim": "kept"}
    allowing = {"storage": {"checkpoints": {**kept, "allowChanges": ["Data"]}}}

    assert restarted_by(allowing, {"storage": {"checkpoints": kept}}) == set()


@pytest.mark.parametrize(
    ("critics", "restarted"),
    [
        pytest.param(("l4-6", "l4-9"), set(), id="on-another-machine"),
        pytest.param(("l4-6",) * 3, {Role.TRAINER}, id="more-of-its-replicas"),
        pytest.param((), {Role.TRAINER}, id="none"),
    ],
)
def test_trainers_restart_for_another_split_of_the_critic(
    critics: tuple[str, ...], restarted: set[Role]
) -> None:
    before, after = (
        a_deployment(plan=a_plan(critics=each)) for each in (("l4-6", "l4-7"), critics)
    )
    hashes = [
        {each.name: restart_hash(deployment, each) for each in deployment.sets}
        for deployment in (before, after)
    ]
    roles = {each.name: each.role for each in before.sets}
    changed = {name for name, found in hashes[0].items() if found != hashes[1].get(name)}
    assert changed == {name for name, role in roles.items() if role in restarted}


TWO_GPUS = a_group(
    Task.REFERENCE_INFERENCE,
    "L4",
    ("l4-8",),
    parallelism=Parallelism(tensor=2, stage_layers=(3,)),
    replicas=(Replica(shares=(Share(machine="l4-8", num_gpus=2),)),),
)


@pytest.mark.parametrize(
    ("changes", "restarted"),
    [
        pytest.param({"plan": a_plan(inference=("l4-8",) * 3)}, set(), id="more-of-them"),
        pytest.param({"plan": a_plan(inference=("l4-7",))}, set(), id="elsewhere"),
        pytest.param({"training": {"steps": 11}}, {Role.COORDINATOR, Role.TRAINER}, id="training"),
        pytest.param({"storage": {}}, {Role.COORDINATOR, Role.TRAINER}, id="storage"),
        pytest.param(
            {"runtime": {"images": {"inference": "mine:1"}}}, {Role.INFERENCE}, id="image"
        ),
        pytest.param(
            {"runtime": {"images": {"trainer": "mine:1"}}},
            {Role.TRAINER, Role.INFERENCE},
            id="trainers-image",
        ),
        pytest.param(
            {"runtime": {"podTemplate": {"resources": {"inference": {"cpu": "4"}}}}},
            {Role.INFERENCE},
            id="resources",
        ),
        pytest.param(
            {"plan": replace(APART, groups=(*APART.groups[:2], TWO_GPUS))},
            {Role.INFERENCE},
            id="shape",
        ),
        pytest.param({"plan": a_plan()}, set(Role), id="trainers-score-instead"),
    ],
)
def test_inference_workers_restart_only_for_what_concerns_them(
    changes: dict[str, Any], restarted: set[Role]
) -> None:
    assert restarted_by({"plan": APART}, {"plan": APART} | changes) == restarted


def test_plan_with_inference_workers_has_certificates_of_its_own() -> None:
    assert identity(a_deployment(plan=APART)) != identity(a_deployment())
    assert identity(a_deployment(plan=a_plan(inference=("l4-1",)))) == identity(
        a_deployment(plan=APART)
    )
