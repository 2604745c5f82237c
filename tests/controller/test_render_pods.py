"""Pods: where they run, what they are given, and what they may not see."""

from typing import Any

import pytest

from hetrl_core.task import Role
from hetrl_operator.render import certificates, children
from tests.controller.deployments import (
    APART,
    INFERENCE,
    ROLLOUT,
    TRAINER,
    a_deployment,
    container_of,
    of_kind,
    pod_of,
)
from tests.controller.values import a_plan


def test_pods_are_placed_on_exactly_the_machines_of_the_plan() -> None:
    plan = a_plan(rollouts=("l4-0", "l4-7", "l4-0"))

    pod = pod_of(a_deployment(plan=plan), ROLLOUT)["spec"]

    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    named = [term["matchFields"][0]["values"] for term in required["nodeSelectorTerms"]]
    assert named == [["l4-0"], ["l4-7"]]
    assert "affinity" not in pod_of(a_deployment(plan=plan), "coordinator")["spec"]


def test_gpus_are_requested_by_those_who_have_some() -> None:
    deployment = a_deployment()

    assert container_of(deployment, TRAINER)["resources"]["limits"]["nvidia.com/gpu"] == "1"
    coordinator = container_of(deployment, "coordinator")
    assert "nvidia.com/gpu" not in coordinator["resources"]["limits"]
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in coordinator["env"]


def test_pods_are_replaced_by_the_operator_alone() -> None:
    sets = of_kind(children(a_deployment()), "StatefulSet")

    assert {each["spec"]["updateStrategy"]["type"] for each in sets.values()} == {"OnDelete"}
    assert {each["spec"]["podManagementPolicy"] for each in sets.values()} == {"Parallel"}


def test_pod_sees_the_certificate_of_its_own_role_only() -> None:
    for name, role in (
        ("coordinator", "coordinator"),
        (TRAINER, "trainer"),
        (ROLLOUT, "rollout"),
        (INFERENCE, "inference"),
    ):
        volumes = pod_of(a_deployment(plan=APART), name)["spec"]["volumes"]
        (secret,) = [each["secret"] for each in volumes if each["name"] == "hetrl-tls"]
        keys = [item["key"] for item in secret["items"]]
        assert keys == ["ca.crt", f"{role}.crt", f"{role}.key"]
        assert secret["secretName"] == certificates(a_deployment()).secret


def test_coordinator_alone_gets_a_token_for_our_audience() -> None:
    deployment = a_deployment()

    for name in ("coordinator", TRAINER, ROLLOUT):
        assert pod_of(deployment, name)["spec"]["automountServiceAccountToken"] is False
    volumes = pod_of(deployment, "coordinator")["spec"]["volumes"]
    (sources,) = [each["projected"]["sources"] for each in volumes if "projected" in each]
    assert sources[0]["serviceAccountToken"]["audience"] == "hetrl-operator"
    for name in (TRAINER, ROLLOUT):
        assert not any("projected" in each for each in pod_of(deployment, name)["spec"]["volumes"])


def test_claims_of_sources_are_mounted_once_and_read_only() -> None:
    container = container_of(a_deployment(), ROLLOUT)

    claims = [each for each in container["volumeMounts"] if "claims" in each["mountPath"]]
    assert claims == [
        {"name": "hetrl-claim-0", "mountPath": "/hetrl/claims/data", "readOnly": True}
    ]


def test_claims_of_each_reward_function_are_mounted() -> None:
    source = {"claim": {"name": "code", "path": "reward.py"}}
    named = {"name": "runs", "reward": "python", "python": {"source": source}}
    prompts = {"claim": {"name": "data", "path": "train.jsonl"}}

    container = container_of(a_deployment(data={"prompts": prompts, "rewards": [named]}), ROLLOUT)

    mounted = {each["mountPath"] for each in container["volumeMounts"]}
    assert {"/hetrl/claims/code", "/hetrl/claims/data"} <= mounted


@pytest.mark.parametrize(
    ("storage", "volume"),
    [
        pytest.param(
            {"checkpoints": {"persistentVolumeClaim": "kept"}},
            {"persistentVolumeClaim": {"claimName": "kept"}},
            id="claim",
        ),
        pytest.param({}, {"emptyDir": {}}, id="none"),
    ],
)
def test_checkpoints_go_to_the_claim_or_stay_with_the_trainer(
    storage: dict[str, Any], volume: dict[str, Any]
) -> None:
    volumes = pod_of(a_deployment(storage=storage), TRAINER)["spec"]["volumes"]

    (found,) = [each for each in volumes if each["name"] == "hetrl-checkpoints"]
    assert found == {"name": "hetrl-checkpoints", **volume}


def test_trainers_keep_checkpoints_on_the_claim() -> None:
    deployment = a_deployment(plan=a_plan(critics=("l4-6",)))
    for pods in deployment.sets:
        mounts = container_of(deployment, pods.name)["volumeMounts"]
        is_mounted = any(each["name"] == "hetrl-checkpoints" for each in mounts)
        assert is_mounted is (pods.role is Role.TRAINER)


def test_inference_worker_listens_and_reads_the_model_and_nothing_else() -> None:
    data = {"prompts": {"claim": {"name": "prompts", "path": "train.jsonl"}}}
    deployment = a_deployment(plan=APART, data=data)
    container = container_of(deployment, INFERENCE)

    launch = "/hetrl/launch/launch.json"
    assert container["command"] == [
        "hetrl",
        "inference",
        "--launch",
        launch,
        "--ordinal",
        "from-hostname",
    ]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"inference": 7403, "metrics": 9090}
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    paths = {each["mountPath"]: each.get("readOnly", False) for each in container["volumeMounts"]}
    assert paths == {
        "/hetrl/launch": True,
        "/hetrl/tls": True,
        "/hetrl/state": False,
        "/tmp": False,
        "/dev/shm": False,
        "/hetrl/claims/data": True,
    }
    claims = [
        each["persistentVolumeClaim"]["claimName"]
        for each in pod_of(deployment, INFERENCE)["spec"]["volumes"]
        if "persistentVolumeClaim" in each
    ]
    assert claims == ["data"]


def test_users_additions_reach_every_pod_but_never_replace_ours() -> None:
    template = {
        "labels": {"team": "rl"},
        "env": [
            {"name": "VLLM_CPU_KVCACHE_SPACE", "value": "1"},
            {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
        ],
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}}],
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
        "resources": {"rollout": {"cpu": "4", "memory": "16Gi"}},
        "imagePullSecrets": ["registry"],
    }
    pod = pod_of(a_deployment(runtime={"podTemplate": template}), ROLLOUT)
    (container,) = pod["spec"]["containers"]

    assert pod["metadata"]["labels"]["team"] == "rl"
    assert pod["metadata"]["labels"]["hetrl.dev/role"] == "rollout"
    assert template["env"][0] in container["env"]
    assert template["env"][1] in container["env"]
    assert {"key": "spot", "operator": "Exists"} in pod["spec"]["tolerations"]
    assert {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}} in pod["spec"]["volumes"]
    assert {"name": "scratch", "mountPath": "/scratch", "readOnly": False} in container[
        "volumeMounts"
    ]
    assert container["resources"]["requests"]["cpu"] == "4"
    assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True


def test_images_come_from_the_job_or_else_from_the_operator() -> None:
    deployment = a_deployment(runtime={"images": {"rollout": "mine:1"}})

    assert container_of(deployment, ROLLOUT)["image"] == "mine:1"
    assert container_of(deployment, TRAINER)["image"] == "hetrl/trainer:test"


@pytest.mark.parametrize(
    ("images", "image"),
    [
        pytest.param({}, "hetrl/trainer:test", id="the-operators-trainers"),
        pytest.param({"trainer": "mine:1"}, "mine:1", id="the-jobs-trainers"),
        pytest.param({"trainer": "mine:1", "inference": "mine:2"}, "mine:2", id="its-own"),
    ],
)
def test_inference_workers_run_in_the_trainers_image_by_default(
    images: dict[str, str], image: str
) -> None:
    deployment = a_deployment(plan=APART, runtime={"images": images})

    assert container_of(deployment, INFERENCE)["image"] == image
