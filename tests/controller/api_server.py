"""Queries of a job on a real API server, and a kubelet's reports about its pods, for tests.

Nodes are kwok's, whose pods only pretend to run; their ends and troubles are written as a
kubelet writes them.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from e2e.cluster.cluster import Cluster
from tests.controller.operator_process import (
    Namespace,
    OperatorProcess,
    a_job,
    eventually,
)

COORDINATOR = "sums-coordinator-0"
L4 = {"pools": [{"name": "l4", "gpuProduct": "L4"}]}
ONLY_PLANNED = {"mode": "PlanOnly", "timeBudgetSeconds": 1}


def start(space: Namespace, **spec: Any) -> dict[str, str]:
    """Have a job run, and return its pods' uids by name."""
    # How good the plan is does not matter here.
    space.apply(a_job(**{"planning": {"timeBudgetSeconds": 1}, **spec}))
    space.wait_for_phase("Running")
    return uids(space)


def uids(space: Namespace, word: str = "") -> dict[str, str]:
    names = {each["metadata"]["name"]: each["metadata"] for each in space.get("pods")["items"]}
    return {name: each["uid"] for name, each in names.items() if word in name}


def naming(plan: str) -> dict[str, Any]:
    return {"mode": "Manual", "planRef": plan, "timeBudgetSeconds": 1}


def write_plan(space: Namespace, name: str, spec: dict[str, Any]) -> None:
    """Write a HetRLPlan as a person does who has edited one."""
    kind = {"apiVersion": "hetrl.dev/v1alpha1", "kind": "HetRLPlan"}
    space.apply({**kind, "metadata": {"name": name}, "spec": spec})


def followed(space: Namespace) -> str:
    return str(space.job()["status"].get("plan", {}).get("name", ""))


def pod_of(space: Namespace, role: str) -> str:
    return min(uids(space, f"-{role}-"))


def nodes_of(space: Namespace, word: str) -> set[str]:
    return {
        each["spec"].get("nodeName", "")
        for each in space.get("pods")["items"]
        if word in each["metadata"]["name"]
    }


def conditions(space: Namespace) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = space.job()["status"]["conditions"]
    return found


def events(space: Namespace, reason: str) -> list[str]:
    found = space.get("events", f"--field-selector=reason={reason}")["items"]
    return [each["message"] for each in found]


def tells(space: Namespace, reason: str) -> str:
    """Wait for an event, and return its message."""
    return eventually(lambda: events(space, reason), what=f"event {reason}")[0]


def report(space: Namespace, operator: OperatorProcess, **said: Any) -> None:
    token = space.token_of(COORDINATOR)
    body = {"step": "4", "total_steps": "10", "version": "4", **said}
    assert operator.post_progress(space.name, "sums", token, body) == 204


def scale(space: Namespace, replicas: int) -> None:
    space.cluster.kubectl("scale", "-n", space.name, "hetrljob", "sums", f"--replicas={replicas}")


def old_enough_to_fail() -> None:
    """Let the second pass in which pods were made: their times have no fractions."""
    time.sleep(1.1)


def say(space: Namespace, pod: str, **status: Any) -> None:
    """Write a pod's status as its kubelet would."""
    text = json.dumps({"status": status})
    space.cluster.kubectl(
        "patch", "-n", space.name, "pod", pod, "--subresource=status", "--type=merge", "-p", text
    )


def not_ready(space: Namespace, pod: str, waiting: str) -> None:
    """Say that a container waits, and why."""
    body = space.get("pod", pod)
    status, role = body["status"], body["metadata"]["labels"]["hetrl.dev/role"]
    state = {"waiting": {"reason": waiting, "message": "as a kubelet says it"}}
    containers = [
        {**each, "ready": False, "state": state} if each["name"] == role else each
        for each in status["containerStatuses"]
    ]
    conditions = [
        {**each, "status": "False"} if each["type"] in {"Ready", "ContainersReady"} else each
        for each in status["conditions"]
    ]
    say(space, pod, containerStatuses=containers, conditions=conditions)


@contextmanager
def held_back(space: Namespace, pod: str) -> Iterator[None]:
    """Keep a pod from going, as a kubelet does that cannot stop it."""
    _finalizers(space, pod, ["example.com/held"])
    try:
        yield
    finally:
        _finalizers(space, pod, [])


def _finalizers(space: Namespace, pod: str, finalizers: list[str]) -> None:
    text = json.dumps({"metadata": {"finalizers": finalizers}})
    space.cluster.kubectl("patch", "-n", space.name, "pod", pod, "--type=merge", "-p", text)


def is_stopping(space: Namespace, pod: str) -> bool:
    return "deletionTimestamp" in space.get("pod", pod)["metadata"]


@contextmanager
def silent(cluster: Cluster, node: str) -> Iterator[None]:
    """Have a node's kubelet not answer."""
    cluster.kubectl("annotate", "node", node, "kwok.x-k8s.io/node-")
    _say_ready(cluster, node, "Unknown")
    try:
        yield
    finally:
        cluster.kubectl("annotate", "node", node, "kwok.x-k8s.io/node=fake")
        _say_ready(cluster, node, "True")


def _say_ready(cluster: Cluster, node: str, status: str) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    ready = {
        "type": "Ready",
        "status": status,
        "reason": "Test",
        "lastTransitionTime": now,
        "lastHeartbeatTime": now,
    }
    cluster.kubectl(
        "patch",
        "node",
        node,
        "--subresource=status",
        "--type=strategic",
        "-p",
        json.dumps({"status": {"conditions": [ready]}}),
    )
