"""Pods that a webhook has put a container into, on a real API server."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from hetrl_operator.model.reasons import Reason
from tests.controller.api_server import pod_of, say, start
from tests.controller.operator_process import Namespace, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

MESH = "a-mesh"
"""Sorted before every role."""

AT = "2026-01-31T12:00:00Z"
RUNS = {"running": {"startedAt": AT}}


def ended(code: int, message: str) -> dict[str, Any]:
    return {
        "terminated": {
            "exitCode": code,
            "message": message,
            "reason": "Error",
            "startedAt": AT,
            "finishedAt": AT,
        }
    }


@contextmanager
def injected(space: Namespace) -> Iterator[None]:
    """Have the API server put a container into every new pod of a namespace."""
    expression = f"""[JSONPatch{{op: "add", path: "/spec/containers/-", value: \
Object.spec.containers{{name: "{MESH}", image: "mesh:1", securityContext: \
Object.spec.containers.securityContext{{allowPrivilegeEscalation: false, runAsNonRoot: true, \
capabilities: Object.spec.containers.securityContext.capabilities{{drop: ["ALL"]}}}}}}}}]"""
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": MESH}}
    policy = {
        **kind,
        "kind": "MutatingAdmissionPolicy",
        "spec": {
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space.name}},
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                    },
                ],
            },
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
        },
    }
    binding = {**kind, "kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": MESH}}
    space.cluster.apply(yaml.safe_dump_all([policy, binding]))
    try:
        eventually(lambda: MESH in _tried(space), what="pods get another container")
        yield
    finally:
        for each in ("mutatingadmissionpolicybinding", "mutatingadmissionpolicy"):
            space.cluster.kubectl("delete", each, MESH)


def _tried(space: Namespace) -> str:
    """Return what would become of a pod."""
    strict = {
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "tried"},
        "spec": {
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "z", "image": "z:1", "securityContext": strict}],
        },
    }
    return space.cluster.kubectl(
        "apply",
        "-n",
        space.name,
        "--dry-run=server",
        "-o",
        "json",
        "-f",
        "-",
        stdin=json.dumps(body),
    )


def say_of(space: Namespace, pod: str, *, ready: bool, **said: dict[str, Any]) -> None:
    """Write statuses of containers as a kubelet does, by name; ``own`` is the job's."""
    body = space.get("pod", pod)
    role = body["metadata"]["labels"]["hetrl.dev/role"]
    names = {role: said.get("own", {}), MESH: said.get("mesh", {})}
    common = {"image": "x", "imageID": "", "restartCount": 0, "ready": True, "state": RUNS}
    statuses = [{**common, "name": name, **names[name]} for name in sorted(names)]
    conditions = [
        {**each, "status": "True" if ready else "False"}
        if each["type"] in {"Ready", "ContainersReady"}
        else each
        for each in body["status"]["conditions"]
    ]
    say(space, pod, containerStatuses=statuses, conditions=conditions)


def test_container_of_others_is_not_taken_for_the_jobs(space: Namespace) -> None:
    with injected(space):
        start(space)
    trainer = pod_of(space, "trainer")
    assert len(space.get("pod", trainer)["spec"]["containers"]) == 2
    crashes = {
        "ready": False,
        "restartCount": 5,
        "lastState": ended(255, "no authority"),
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "waits 5m"}},
    }

    say_of(space, trainer, ready=False, mesh=crashes)
    found = space.wait_for_reason("TrainerReady", Reason.SIDECAR_NOT_READY)
    assert (
        f"container {MESH}: CrashLoopBackOff, waits 5m, ended with 255, no authority"
        in (found["message"])
    )
    say_of(space, trainer, ready=True, mesh={**crashes, "ready": True, "state": RUNS})
    space.wait_for_phase("Running")
    assert space.job()["status"].get("restarts", 0) == 0

    own = {
        "ready": False,
        "restartCount": 1,
        "lastState": ended(3, "/models/tiny: no such folder"),
        "state": crashes["state"],
    }
    say_of(space, trainer, ready=False, own=own)
    failed = space.wait_for_reason("Failed", Reason.TRAINER_FAILED)
    assert "/models/tiny: no such folder" in failed["message"]
