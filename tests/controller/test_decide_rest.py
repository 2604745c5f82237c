"""Decisions under random disturbances: they come to rest, and nothing is left behind."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetrl_operator.model.conditions import holds
from hetrl_operator.model.reasons import ConditionType
from tests.controller.cluster_model import ClusterModel, a_cluster
from tests.controller.values import a_job, a_plan, a_report


def _steps() -> st.SearchStrategy[list[str]]:
    pods = [
        "coordinator-0",
        "trainer-a100-80gb-0-0",
        "trainer-a100-80gb-0-1",
        "rollout-l4-0-0",
        "inference-l4-0-0",
    ]
    disturbances = [
        *(f"kill math-{pod}" for pod in pods),
        *(f"crash math-{pod}" for pod in pods),
        "ready",
        "suspend",
        "resume",
        "round",
        "lose-config-map",
        "finish",
        "wait",
        "scale",
        "change-training",
        "lose-node a100-0",
        "lose-node l4-0",
        "lose-node l4-9",
        "find-nodes",
        "delete-job",
    ]
    return st.lists(st.sampled_from(disturbances), max_size=12)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(steps=_steps())
def test_decisions_come_to_rest_whatever_happens(steps: list[str]) -> None:
    cluster = a_cluster(a_job(**POLICY), a_plan(trainers=2, inference=("l4-9",)))

    for step in steps:
        _disturb(cluster, step)
        cluster.round()
    _disturb(cluster, "find-nodes")

    cluster.settle()
    assert cluster.certificates_issued <= 1
    assert cluster.planning
    if cluster.is_gone:
        assert not cluster.pods
    elif cluster.job.status.completion_time:
        assert not cluster.pods
        assert not cluster.job.has_finalizer
        assert not cluster.planning.is_reserved
    elif holds(cluster.job.status, ConditionType.SUSPENDED):
        assert not cluster.pods
        assert not cluster.planning.is_reserved
    elif cluster.pods:
        assert cluster.planning.is_reserved
        assert cluster.job.has_finalizer
        assert not any(pod.is_gated for pod in cluster.pods.values())
        assert len({pod.restart_hash for pod in cluster.pods.values()}) <= len(cluster.sets)


POLICY: dict[str, Any] = {
    "failurePolicy": {
        "maxRestarts": 5,
        "nodeLostSeconds": 30,
        "rules": [
            {"role": "rollout", "action": "RestartRole"},
            {"role": "coordinator", "action": "RestartJob"},
        ],
    }
}


def _disturb(cluster: ClusterModel, step: str) -> None:  # noqa: C901, PLR0912  # a table of words
    word, _, name = step.partition(" ")
    match word:
        case "kill" | "crash":
            if name in cluster.pods:
                cluster.kill(name) if word == "kill" else cluster.crash(name, 1)
        case "suspend" | "resume":
            cluster.change(suspend=word == "suspend", **POLICY)
        case "scale":
            cluster.answer = a_plan(
                trainers=2, rollouts=("l4-0", "l4-1", "l4-1"), inference=("l4-9",)
            )
            cluster.change(rollout={"replicas": 3}, **POLICY)
        case "change-training":
            cluster.change(training={"steps": 10, "learningRate": 1e-5}, **POLICY)
        case "ready":
            cluster.make_ready()
        case "wait":
            cluster.pass_time(seconds=40)
        case "lose-config-map":
            cluster.children.pop(("ConfigMap", "math-coordinator"), None)
        case "lose-node":
            cluster.lost_nodes = {**cluster.lost_nodes, name: cluster.now}
        case "find-nodes":
            cluster.lost_nodes = {}
        case "delete-job":
            if not cluster.job.is_deleting:
                cluster.delete_job()
        case "finish":
            cluster.progress = a_report(10, finished=True, outcome="Succeeded")
