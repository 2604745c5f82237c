"""Manifests: what a job's pods are, and what they may not be."""

from dataclasses import replace
from typing import Any

import pytest

from hetrl_api.status import JobStatus, Phase
from hetrl_core.job import TracesSpec
from hetrl_core.launch import from_json
from hetrl_core.plan import Parallelism, Plan, Replica, Share
from hetrl_core.podset import pod_sets
from hetrl_core.task import Role, Task
from hetrl_core.training_split import UNDIVIDED
from hetrl_operator.actions import Manifest
from hetrl_operator.labels import SPEC_HASH, child_name
from hetrl_operator.render import Deployment, certificates, children, digests, identity
from hetrl_operator.render.restart import restart_hash
from tests.controller.values import SETTINGS, a_group, a_job, a_plan, a_plan_seen, wish_of


def a_deployment(**changes: Any) -> Deployment:
    plan = changes.pop("plan", a_plan())
    running = changes.pop("running", frozenset(Role))
    job = a_job(**changes)
    return Deployment(
        job=job, wish=wish_of(job), plan=a_plan_seen(job, plan), sets=pod_sets(plan),
        running=running, settings=SETTINGS,
    )  # fmt: skip


def of_kind(manifests: tuple[Manifest, ...], kind: str) -> dict[str, Any]:
    found = {each["metadata"]["name"]: each for each in manifests if each["kind"] == kind}
    assert found
    return found


def signed(deployment: Deployment) -> dict[tuple[str, str], str]:
    return {
        (each["kind"], each["metadata"]["name"]): each["metadata"]["annotations"][SPEC_HASH]
        for each in children(deployment)
    }


def pod_of(deployment: Deployment, name: str) -> dict[str, Any]:
    sets = of_kind(children(deployment), "StatefulSet")
    template: dict[str, Any] = sets[f"math-{name}"]["spec"]["template"]
    return template


def container_of(deployment: Deployment, name: str) -> dict[str, Any]:
    (container,) = pod_of(deployment, name)["spec"]["containers"]
    return dict(container)


TRAINER, ROLLOUT, INFERENCE = "trainer-a100-80gb-0", "rollout-l4-0", "inference-l4-0"
APART = a_plan(inference=("l4-8", "l4-9"))
"""A plan whose reference model has GPUs of its own."""


def test_the_same_input_gives_the_same_manifests() -> None:
    assert children(a_deployment()) == children(a_deployment())


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"plan": a_plan(trainers=2)}, id="plan"),
        pytest.param({"training": {"steps": 11}}, id="contract"),
        pytest.param({"running": frozenset[Role]()}, id="replicas"),
    ],
)
def test_a_digest_tells_changed_manifests_from_unchanged_ones(changes: dict[str, Any]) -> None:
    assert signed(a_deployment()) != signed(a_deployment(**changes))


OTHER_SETTINGS = replace(SETTINGS, pull_policy="Always")
JOB = a_deployment().job


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"job": replace(JOB, namespace="elsewhere")}, id="namespace"),
        pytest.param({"job": replace(JOB, name="other")}, id="name"),
        pytest.param({"job": replace(JOB, uid="another")}, id="uid"),
        pytest.param({"wish": wish_of(a_job(training={"steps": 11}))}, id="spec"),
        pytest.param(
            {"plan": replace(a_plan_seen(JOB, a_plan(trainers=2)), uid="another")}, id="plan"
        ),
        pytest.param({"plan": replace(a_deployment().plan, key="f" * 32)}, id="plan's key"),
        pytest.param({"sets": pod_sets(a_plan(rollouts=("l4-0",)))}, id="pod sets"),
        pytest.param({"running": frozenset({Role.COORDINATOR})}, id="roles that run"),
        pytest.param({"settings": OTHER_SETTINGS}, id="settings"),
    ],
)
def test_remembered_digests_are_those_of_the_manifests(changes: dict[str, Any]) -> None:
    first = a_deployment()
    second = replace(first, **changes)

    for each in (first, second, first):
        assert digests(each).objects == signed(each)
        assert digests(each).restarts == {pods.name: restart_hash(each, pods) for pods in each.sets}
    assert digests(first) != digests(second)


def test_a_status_does_not_have_digests_made_anew() -> None:
    deployment = a_deployment()
    later = replace(deployment, job=replace(deployment.job, status=JobStatus(phase=Phase.RUNNING)))

    assert digests(later) is digests(deployment)


def test_every_object_goes_with_its_job() -> None:
    for manifest in children(a_deployment()):
        (owner,) = manifest["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("HetRLJob", "uid-1", True)


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


def test_every_pod_is_replaced_by_the_operator_alone() -> None:
    sets = of_kind(children(a_deployment()), "StatefulSet")

    assert {each["spec"]["updateStrategy"]["type"] for each in sets.values()} == {"OnDelete"}
    assert {each["spec"]["podManagementPolicy"] for each in sets.values()} == {"Parallel"}


def test_a_pod_sees_the_certificate_of_its_own_role_only() -> None:
    for name, role in (
        ("coordinator", "coordinator"), (TRAINER, "trainer"), (ROLLOUT, "rollout"),
        (INFERENCE, "inference"),
    ):  # fmt: skip
        volumes = pod_of(a_deployment(plan=APART), name)["spec"]["volumes"]
        (secret,) = [each["secret"] for each in volumes if each["name"] == "hetrl-tls"]
        keys = [item["key"] for item in secret["items"]]
        assert keys == ["ca.crt", f"{role}.crt", f"{role}.key"]
        assert secret["secretName"] == certificates(a_deployment()).secret


def test_only_the_coordinator_gets_a_token_and_only_for_us() -> None:
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


@pytest.mark.parametrize(
    ("storage", "volume"),
    [
        pytest.param(
            {"checkpoints": {"persistentVolumeClaim": "kept"}},
            {"persistentVolumeClaim": {"claimName": "kept"}}, id="claim",
        ),
        pytest.param({}, {"emptyDir": {}}, id="none"),
    ],
)  # fmt: skip
def test_checkpoints_go_to_the_claim_or_stay_with_the_trainer(
    storage: dict[str, Any], volume: dict[str, Any]
) -> None:
    volumes = pod_of(a_deployment(storage=storage), TRAINER)["spec"]["volumes"]

    (found,) = [each for each in volumes if each["name"] == "hetrl-checkpoints"]
    assert found == {"name": "hetrl-checkpoints", **volume}


def test_the_contract_says_who_does_what_and_where_the_others_are() -> None:
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
        Task.ACTOR_TRAINING, "A100-80GB", ("a100-0",),
        parallelism=Parallelism(tensor=1, stage_layers=(2, 1)),
        replicas=(Replica(shares=(Share(machine="a100-0", num_gpus=1),
                                  Share(machine="a100-1", num_gpus=1))),),
    )  # fmt: skip
    _, critic, *others = a_plan(critics=("l4-6", "l4-7", "l4-8")).groups
    critic = replace(critic, gpu_kind="A100-80GB")
    trainers = (critic, policy) if is_first else (policy, critic)
    return replace(a_plan(), groups=(*trainers, *others))


@pytest.mark.parametrize("is_first", [False, True], ids=["critic last", "critic first"])
def test_every_contract_says_how_a_critic_apart_is_split_and_meets_where_its_policy_is(
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
        Task.ACTOR_TRAINING, Task.CRITIC_INFERENCE, Task.CRITIC_TRAINING,
    }  # fmt: skip


def test_a_critic_in_its_policys_processes_has_no_split_of_its_own() -> None:
    maps = of_kind(children(a_deployment()), "ConfigMap").values()
    assert {from_json(each["data"]["launch.json"]).critic_split for each in maps} == {None}


def test_every_contract_says_what_inference_workers_are_asked_and_where_they_listen() -> None:
    apart, together = (
        [from_json(each["data"]["launch.json"]) for each in of_kind(made, "ConfigMap").values()]
        for made in (children(a_deployment(plan=APART)), children(a_deployment()))
    )

    assert {each.inference_tasks for each in apart} == {(Task.REFERENCE_INFERENCE,)}
    assert {each.inference_tasks for each in together} == {()}
    assert {each.inference_port for each in apart} == {7403}
    (worker,) = [each for each in apart if each.role is Role.INFERENCE]
    assert [(rank.ordinal, rank.task) for rank in worker.ranks] == [
        (0, Task.REFERENCE_INFERENCE), (1, Task.REFERENCE_INFERENCE),
    ]  # fmt: skip


def test_an_inference_worker_listens_and_reads_the_model_and_nothing_else() -> None:
    data = {"prompts": {"claim": {"name": "prompts", "path": "train.jsonl"}}}
    deployment = a_deployment(plan=APART, data=data)
    container = container_of(deployment, INFERENCE)

    launch = "/hetrl/launch/launch.json"
    assert container["command"] == [
        "hetrl", "inference", "--launch", launch, "--ordinal", "from-hostname"
    ]  # fmt: skip
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"inference": 7403, "metrics": 9090}
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    paths = {each["mountPath"]: each.get("readOnly", False) for each in container["volumeMounts"]}
    assert paths == {
        "/hetrl/launch": True, "/hetrl/tls": True, "/hetrl/state": False, "/tmp": False,
        "/dev/shm": False, "/hetrl/claims/data": True,
    }  # fmt: skip
    claims = [
        each["persistentVolumeClaim"]["claimName"]
        for each in pod_of(deployment, INFERENCE)["spec"]["volumes"]
        if "persistentVolumeClaim" in each
    ]
    assert claims == ["data"]


def test_every_pod_is_told_where_traces_go() -> None:
    traces = {"endpoint": "http://otel-collector.monitoring:4318", "sampleRatio": 0.1}
    deployment = a_deployment(runtime={"telemetry": {"traces": traces}})

    for contracts, expected in (
        (deployment, TracesSpec(endpoint=traces["endpoint"], sample_ratio=0.1)),
        (a_deployment(), None),
    ):
        maps = of_kind(children(contracts), "ConfigMap").values()
        told = {from_json(each["data"]["launch.json"]).traces for each in maps}
        assert told == {expected}


def test_rollouts_added_later_are_not_held_back_by_the_number_at_the_start() -> None:
    algorithm = {"groupSize": 4, "globalBatchSize": 64, "maxStaleness": 2}
    maps = of_kind(children(a_deployment(algorithm=algorithm)), "ConfigMap")

    launch = from_json(maps["math-coordinator"]["data"]["launch.json"])

    # The bound never lends more than the three batches that it spans.
    assert launch.max_concurrent == 3 * 64


OF_EVERY_JOB = set(Role) - {Role.INFERENCE}


def restart_hashes(deployment: Deployment) -> dict[Role, str]:
    return {each.role: restart_hash(deployment, each) for each in deployment.sets}


def restarted_by(before: dict[str, Any], after: dict[str, Any]) -> set[Role]:
    """The roles whose pods are others after a change, of those that there were."""
    first, second = restart_hashes(a_deployment(**before)), restart_hashes(a_deployment(**after))
    return {role for role, found in first.items() if found != second.get(role)}


def test_pods_that_an_earlier_release_started_are_not_restarted_by_this_one() -> None:
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
        pytest.param(
            {"training": {"steps": 11}}, {Role.COORDINATOR, Role.TRAINER}, id="training"
        ),
        pytest.param(
            {"runtime": {"images": {"rollout": "mine:1"}}}, {Role.ROLLOUT}, id="one-image"
        ),
        pytest.param(
            {"runtime": {"podTemplate": {"resources": {"trainer": {"cpu": "4"}}}}},
            {Role.TRAINER}, id="resources-of-one-role",
        ),
        pytest.param(
            {"runtime": {"podTemplate": {"env": [{"name": "A", "value": "b"}]}}}, OF_EVERY_JOB,
            id="environment",
        ),
        pytest.param(
            {"runtime": {"telemetry": {"traces": {"endpoint": "http://otel:4318"}}}}, OF_EVERY_JOB,
            id="traces",
        ),
    ],
)  # fmt: skip
def test_pods_are_restarted_for_what_concerns_them_and_nothing_else(
    changes: dict[str, Any], restarted: set[Role]
) -> None:
    assert restarted_by({}, changes) == restarted


@pytest.mark.parametrize(
    ("critics", "restarted"),
    [
        pytest.param(("l4-6", "l4-9"), set(), id="on-another-machine"),
        pytest.param(("l4-6",) * 3, {Role.TRAINER}, id="more-of-its-replicas"),
        pytest.param((), {Role.TRAINER}, id="none"),
    ],
)
def test_all_trainers_are_restarted_for_a_critic_that_is_split_anew(
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


def test_every_trainer_keeps_checkpoints_on_the_claim() -> None:
    deployment = a_deployment(plan=a_plan(critics=("l4-6",)))
    for pods in deployment.sets:
        mounts = container_of(deployment, pods.name)["volumeMounts"]
        is_mounted = any(each["name"] == "hetrl-checkpoints" for each in mounts)
        assert is_mounted is (pods.role is Role.TRAINER)


TWO_GPUS = a_group(
    Task.REFERENCE_INFERENCE, "L4", ("l4-8",), parallelism=Parallelism(tensor=2, stage_layers=(3,)),
    replicas=(Replica(shares=(Share(machine="l4-8", num_gpus=2),)),),
)  # fmt: skip


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
            {"runtime": {"images": {"trainer": "mine:1"}}}, {Role.TRAINER, Role.INFERENCE},
            id="trainers-image",
        ),
        pytest.param(
            {"runtime": {"podTemplate": {"resources": {"inference": {"cpu": "4"}}}}},
            {Role.INFERENCE}, id="resources",
        ),
        pytest.param(
            {"plan": replace(APART, groups=(*APART.groups[:2], TWO_GPUS))}, {Role.INFERENCE},
            id="shape",
        ),
        pytest.param({"plan": a_plan()}, set(Role), id="trainers-score-instead"),
    ],
)  # fmt: skip
def test_inference_workers_are_restarted_for_what_concerns_them_and_nothing_else(
    changes: dict[str, Any], restarted: set[Role]
) -> None:
    assert restarted_by({"plan": APART}, {"plan": APART} | changes) == restarted


def test_a_plan_with_inference_workers_has_certificates_of_its_own() -> None:
    assert identity(a_deployment(plan=APART)) != identity(a_deployment())
    assert identity(a_deployment(plan=a_plan(inference=("l4-1",)))) == identity(
        a_deployment(plan=APART)
    )


def test_the_coordinator_is_told_where_to_report() -> None:
    maps = of_kind(children(a_deployment()), "ConfigMap")

    launch = from_json(maps["math-coordinator"]["data"]["launch.json"])

    assert launch.progress
    assert launch.progress.url == (
        "https://hetrl-operator.hetrl-system.svc:9443/v1/namespaces/default/hetrljobs/math/progress"
    )
    assert maps["math-coordinator"]["data"]["operator-ca.crt"] == SETTINGS.progress_authority


def test_the_users_additions_reach_every_pod_but_never_replace_ours() -> None:
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
def test_inference_workers_run_in_the_trainers_image_unless_told_otherwise(
    images: dict[str, str], image: str
) -> None:
    deployment = a_deployment(plan=APART, runtime={"images": images})

    assert container_of(deployment, INFERENCE)["image"] == image


def test_names_stay_within_what_labels_hold() -> None:
    longest = child_name("j" * 40, "rollout-a100-80gb-12")

    assert len(longest) <= 52
    assert longest != child_name("j" * 40, "rollout-a100-80gb-13")
    assert child_name("math", "coordinator") == "math-coordinator"


def test_a_job_of_the_longest_name_keeps_every_object_apart() -> None:
    deployment = a_deployment()
    job = replace(deployment.job, name="j" * 40)

    made = children(replace(deployment, job=job))

    places = [(each["kind"], each["metadata"]["name"]) for each in made]
    assert len(set(places)) == len(places)
