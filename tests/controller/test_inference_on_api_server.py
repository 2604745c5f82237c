"""A reference model on GPUs of its own, on a real API server: deployed, lost, awaited."""

import base64
import json
from typing import Any

import pytest
from cryptography import x509

from hetrl_operator.model.reasons import ConditionType, Reason
from tests.controller.api_server import (
    ONLY_PLANNED,
    followed,
    naming,
    nodes_of,
    not_ready,
    uids,
    write_plan,
)
from tests.controller.operator_process import Namespace, a_job, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

FIRST, SECOND = "sums-inference-l4-0-0", "sums-inference-l4-0-1"


def l4_nodes(space: Namespace) -> list[str]:
    names = space.cluster.kubectl("get", "nodes", "--output=name").split()
    return sorted(each.removeprefix("node/") for each in names if "-l4-" in each)


def apart(spec: dict[str, Any], machines: list[str]) -> dict[str, Any]:
    """The same plan, its reference model on one GPU of each of these machines."""
    groups = [
        {**each, "tasks": [task for task in each["tasks"] if task != "ReferenceInference"]}
        for each in spec["groups"]
    ]
    groups = [each for each in groups if each["tasks"]]
    scores = {
        "tasks": ["ReferenceInference"],
        "gpuKind": "L4",
        "region": "us-west",
        "tensor": 1,
        "stageLayers": [3],
        "replicas": len(machines),
        "memory": {"weightsBytes": 1},
        "placements": [
            {
                "gpus": [1],
                "workShare": 1 / len(machines),
                "runs": [{"machines": each} for each in machines],
            }
        ],
    }
    trains = sum(
        sum(placement["gpus"]) * each["replicas"]
        for each in groups
        for placement in each["placements"]
    )
    return {**spec, "groups": [*groups, scores], "numGPUs": trains + len(machines)}


def start_apart(space: Namespace) -> dict[str, str]:
    """Have a job run by a plan with two inference workers, and return its pods' uids by name."""
    space.apply(a_job(planning=ONLY_PLANNED, algorithm={"klCoefficient": 0.01}))
    space.wait_for_phase("Planned")
    spec = space.get("hetrlplan", followed(space))["spec"]
    write_plan(space, "apart", apart(spec, l4_nodes(space)))
    space.patch({"planning": naming("apart"), "resources": {"maxGPUs": 8}})
    space.wait_for_phase("Running")
    eventually(
        lambda: space.condition(ConditionType.INFERENCE_READY)["reason"] == Reason.ALL_READY,
        what="both inference workers are ready",
    )
    return uids(space)


def test_inference_workers_are_deployed_and_a_lost_one_comes_back(
    space: Namespace,
) -> None:
    before = start_apart(space)
    assert set(uids(space, "-inference-")) == {FIRST, SECOND}
    assert nodes_of(space, "-inference-") == set(l4_nodes(space))
    (container,) = space.get("pod", FIRST)["spec"]["containers"]
    assert container["image"] == "hetrl/trainer:test"
    assert {"inference": 7403}.items() <= {
        each["name"]: each["containerPort"] for each in container["ports"]
    }.items()
    assert f"*.sums.{space.name}.svc" in names_of_certificate(space, "inference.crt")
    for name in space.names("configmaps"):
        contract = json.loads(space.get("configmap", name)["data"]["launch.json"])
        assert (contract["inference_tasks"], contract["inference_port"]) == (
            ["ReferenceInference"],
            7403,
        )

    space.cluster.kubectl("delete", "-n", space.name, "pod", SECOND, "--wait=false")

    eventually(
        lambda: uids(space).get(SECOND, before[SECOND]) != before[SECOND], what="another pod"
    )
    space.wait_for_reason(ConditionType.INFERENCE_READY, Reason.ALL_READY)
    assert {name for name, uid in before.items() if uids(space)[name] != uid} == {SECOND}
    assert space.job()["status"]["restarts"] == 0
    assert space.job()["status"]["inference"]["summary"] == "2/2"

    space.patch({"suspend": True})
    space.wait_for_phase("Suspended")
    assert space.condition(ConditionType.INFERENCE_READY)["reason"] == Reason.SUSPENDED
    assert uids(space) == {}


def names_of_certificate(space: Namespace, file: str) -> list[str]:
    encoded = space.get("secret", "sums-identity")["data"][file]
    found = x509.load_pem_x509_certificate(base64.b64decode(encoded))
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return names.get_values_for_type(x509.DNSName)


def test_job_runs_as_long_as_an_inference_worker_is_ready(space: Namespace) -> None:
    start_apart(space)

    not_ready(space, FIRST, "ContainerCreating")
    ready = space.wait_for_reason(ConditionType.INFERENCE_READY, Reason.MIN_READY)
    assert (ready["status"], space.phase()) == ("True", "Running")
    space.wait_for_reason(ConditionType.DEGRADED, Reason.INFERENCE_BELOW_DESIRED)

    not_ready(space, SECOND, "CrashLoopBackOff")
    ready = space.wait_for_reason(ConditionType.INFERENCE_READY, Reason.CRASH_LOOP)
    assert ready["status"] == "False"
    space.wait_for_reason(ConditionType.RUNNING, Reason.NOT_READY)

    space.cluster.kubectl("delete", "-n", space.name, "pod", FIRST, "--wait=false")
    space.wait_for_phase("Running")


def test_inference_worker_that_gives_up_fails_the_job_with_reason(space: Namespace) -> None:
    start_apart(space)

    space.end_container(FIRST, exit_code=3, message="/models/tiny: not a model")

    failed = space.wait_for_reason("Failed", Reason.INFERENCE_FAILED)
    assert failed["message"] == f"{FIRST}: /models/tiny: not a model"
