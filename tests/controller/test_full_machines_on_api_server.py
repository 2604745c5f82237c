"""Machines that pods of others fill, on a real API server with the real scheduler.

The jobs of this module wait at the same time, each on machines of its own kind.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from e2e.cluster.cluster import Cluster
from hetrl_operator.model.parse import plan_seen
from hetrl_operator.model.planning import PlanSeen
from hetrl_operator.model.reasons import EventReason, Reason, ReplanReason
from hetrl_operator.planning.reservations import gpus_by_machine
from tests.controller.api_server import nodes_of, start, tells
from tests.controller.operator_process import (
    Namespace,
    OperatorProcess,
    a_job,
    eventually,
    namespace_of,
)

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

URGENT = "urgent"
NO_GPUS = "1 Insufficient nvidia.com/gpu"


def on_kind(product: str, **labels: str) -> dict[str, Any]:
    pool = {"name": "one", "gpuProduct": product, **({"nodeSelector": labels} if labels else {})}
    return {"resources": {"maxGPUs": 3, "pools": [pool]}, "planning": {"timeBudgetSeconds": 1}}


@dataclass(frozen=True, slots=True)
class Others:
    """Another user of the cluster besides HetRL."""

    cluster: Cluster

    def take(self, node: str, *, gpus: int = 8, priority: str = "") -> None:
        """Fill a machine, by preemption where a priority is given."""
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"serves-{node}", "namespace": "default"},
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": node},
                "terminationGracePeriodSeconds": 0,
                "containers": [
                    {
                        "name": "server",
                        "image": "server:1",
                        "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
                    },
                ],
                **({"priorityClassName": priority} if priority else {}),
            },
        }
        self.cluster.apply(yaml.safe_dump(body))
        eventually(lambda: self._is_on(node), what=f"others fill {node}")

    def leave(self, node: str) -> None:
        self.cluster.kubectl("delete", "pod", "-n", "default", f"serves-{node}")

    def _is_on(self, node: str) -> bool:
        text = self.cluster.kubectl("get", "pod", "-n", "default", f"serves-{node}", "-o", "json")
        return bool(json.loads(text)["spec"].get("nodeName") == node)


@dataclass(frozen=True, slots=True)
class Crowded:
    """Three jobs, and the machine of each that others have filled."""

    others: Others
    new: Namespace
    new_on: str
    running: Namespace
    running_on: str
    confined: Namespace
    confined_to: str


def planned_machine(space: Namespace) -> str:
    """Return the one machine of a job that is only planned."""
    space.wait_for_reason("Planned", Reason.PLAN_READY)
    (body,) = space.get("hetrlplans")["items"]
    plan = plan_seen(body)
    assert isinstance(plan, PlanSeen)
    (machine,) = gpus_by_machine(plan.plan)
    return machine


@pytest.fixture(scope="module")
def crowded(cluster: Cluster, operator: OperatorProcess) -> Iterator[Crowded]:
    assert operator.process is not None
    others = Others(cluster)
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": URGENT},
        "value": 1000,
    }
    cluster.apply(yaml.safe_dump(priority))
    with (
        namespace_of(cluster, "new-job") as new,
        namespace_of(cluster, "running-job") as running,
        namespace_of(cluster, "confined-job") as confined,
    ):
        machine = "fake-l40s-0"
        others.take(machine)
        confined.apply(a_job(**on_kind("L40S", **{"kubernetes.io/hostname": machine})))
        spec = on_kind("A100-80GB")
        new.apply(a_job(**{**spec, "planning": {"timeBudgetSeconds": 1, "mode": "PlanOnly"}}))
        start(running, **on_kind("L4"))
        (running_on,) = nodes_of(running, "-trainer-")
        new_on = planned_machine(new)
        others.take(new_on)
        new.patch({"planning": {"mode": None}})
        others.take(running_on, priority=URGENT)
        yield Crowded(others, new, new_on, running, running_on, confined, machine)
        for each in (new_on, running_on):
            others.leave(each)
    cluster.kubectl("delete", "priorityclass", URGENT)


def test_confined_job_waits_in_words_and_starts_when_others_leave(crowded: Crowded) -> None:
    space, machine = crowded.confined, crowded.confined_to

    found = space.wait_for_reason("Degraded", Reason.PLAN_DRIFT)

    assert found["message"].startswith(f"{machine} has no room for sums-")
    assert NO_GPUS in found["message"]
    assert machine in tells(space, EventReason.REPLAN_REJECTED)
    assert space.condition("TrainerReady")["reason"] == Reason.UNSCHEDULABLE
    crowded.others.leave(machine)
    space.wait_for_phase("Running")
    assert len(space.get("hetrlplans")["items"]) == 1


def test_new_job_runs_beside_a_machine_that_others_filled(crowded: Crowded) -> None:
    space = crowded.new

    space.wait_for_phase("Running")

    assert crowded.new_on not in nodes_of(space, "-trainer-") | nodes_of(space, "-rollout-")
    assert f"{crowded.new_on} has no room" in tells(space, EventReason.REPLANNED)
    assert NO_GPUS in tells(space, EventReason.REPLANNED)
    assert space.job()["status"]["lastReplan"]["reason"] == ReplanReason.NODE_FULL
    assert crowded.new_on in space.condition("Planned")["message"]


def test_running_job_moves_when_a_pod_of_others_preempts_it(crowded: Crowded) -> None:
    space, left = crowded.running, crowded.running_on

    def has_moved() -> bool:
        nodes = nodes_of(space, "-trainer-") | nodes_of(space, "-rollout-")
        return not nodes & {left, ""}

    eventually(has_moved, what=f"the job has left {left}")
    space.wait_for_phase("Running")

    assert f"{left} has no room" in tells(space, EventReason.REPLANNED)
