"""A fleet that changes under a running job on a real API server: what moves, and what it costs."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from e2e.cluster.cluster import Cluster
from hetrl_operator.decide.plan.drift import SETTLE_SECONDS
from hetrl_operator.model.reasons import EventReason, ReplanOutcome, ReplanReason
from tests.controller.api_server import events, nodes_of, silent, start, tells, uids
from tests.controller.operator_process import Namespace, OperatorProcess, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

A100, L4 = "NVIDIA-A100-SXM4-80GB", "NVIDIA-L4"
APART = {
    "pools": [
        {"name": "one", "gpuProduct": A100, "maxGPUs": 1},
        {"name": "two", "gpuProduct": L4, "maxGPUs": 2},
    ]
}
"""Two rollouts and a trainer take all of it, so one of two machines has rollouts alone."""

LONG = {"steps": 10_000_000}
"""Longer than any window: a step of so small a model takes milliseconds."""


def replans(operator: OperatorProcess, reason: str, outcome: str) -> int:
    """What the metric counts."""
    sample = rf'^hetrl_replans_total{{outcome="{outcome}",reason="{reason}"}} (\S+)'
    found = re.search(sample, operator.metrics(), re.MULTILINE)
    return int(float(found.group(1))) if found else 0


@contextmanager
def marked(cluster: Cluster, verb: str, node: str, mark: str) -> Iterator[None]:
    """Have a node carry a taint, label or annotation."""
    cluster.kubectl(verb, "node", node, mark)
    try:
        yield
    finally:
        key = re.split(r"[=:]", mark, maxsplit=1)[0]
        cluster.kubectl(verb, "node", node, f"{key}-")


@contextmanager
def cordoned(cluster: Cluster, *nodes: str) -> Iterator[None]:
    cluster.kubectl("cordon", *nodes)
    try:
        yield
    finally:
        cluster.kubectl("uncordon", *nodes)


def nodes_like(cluster: Cluster, word: str) -> list[str]:
    names = cluster.kubectl("get", "nodes", "--output=name").split()
    return sorted(each.removeprefix("node/") for each in names if word in each)


def uids_elsewhere(space: Namespace, node: str) -> dict[str, str]:
    """The uid of each pod that is not on a node; the coordinator may be anywhere."""
    return {
        each["metadata"]["name"]: each["metadata"]["uid"]
        for each in space.get("pods")["items"]
        if each["spec"].get("nodeName") != node
    }


def has_left(space: Namespace, node: str, before: dict[str, str]) -> bool:
    """Tell whether all pods are there again, and those that need GPUs not on a node."""
    nodes = nodes_of(space, "-rollout-") | nodes_of(space, "-trainer-")
    return uids(space).keys() == before.keys() and not nodes & {node, ""}


def last_replan(space: Namespace) -> dict[str, Any]:
    found: dict[str, Any] = space.job()["status"].get("lastReplan", {})
    return found


@pytest.mark.parametrize(
    ("verb", "mark"),
    [
        pytest.param(
            "taint", "cloud.google.com/impending-node-termination=:NoSchedule", id="a-taint"
        ),
        pytest.param("annotate", "hetrl.dev/leaving=maintenance", id="an-annotation"),
        pytest.param("taint", "example.com/drain=:NoExecute", id="whatever-evicts"),
    ],
)
def test_machine_about_to_go_is_left_at_once(
    space: Namespace, operator: OperatorProcess, verb: str, mark: str
) -> None:
    before = start(space, resources=APART, rollout={"replicas": 2}, training=LONG)
    counted = replans(operator, ReplanReason.NODE_LEAVING, ReplanOutcome.ADOPTED)
    leaving = min(nodes_of(space, "-rollout-") - nodes_of(space, "-trainer-"))
    stays = uids_elsewhere(space, leaving)

    with marked(space.cluster, verb, leaving, mark):
        eventually(lambda: has_left(space, leaving, before), what=f"nothing is on {leaving}")
        space.wait_for_phase("Running")

    assert stays.items() <= uids(space).items()
    assert uids(space).keys() == before.keys()
    assert mark.partition("=")[0] in tells(space, EventReason.REPLANNED)
    assert replans(operator, ReplanReason.NODE_LEAVING, ReplanOutcome.ADOPTED) == counted + 1
    assert last_replan(space)["outcome"] == ReplanOutcome.ADOPTED


def test_trainers_lost_node_moves_the_trainer_and_leaves_the_rollouts(space: Namespace) -> None:
    before = start(
        space,
        resources=APART,
        rollout={"replicas": 2},
        training=LONG,
        failurePolicy={"nodeLostSeconds": 3},
    )
    (lost,) = nodes_of(space, "-trainer-")
    stays = uids_elsewhere(space, lost)

    with silent(space.cluster, lost):
        eventually(lambda: has_left(space, lost, before), what=f"nothing is on {lost}")
        space.wait_for_phase("Running")

    assert {name: uid for name, uid in stays.items() if "-rollout-" in name}
    assert stays.items() <= uids(space).items()
    assert "the trainer moves, from its last checkpoint" in tells(space, EventReason.REPLANNED)
    assert last_replan(space)["reason"] == ReplanReason.NODE_LOST


def test_pods_on_a_cordoned_machine_run_on(space: Namespace) -> None:
    before = start(
        space,
        resources=APART,
        rollout={"replicas": 2},
        training=LONG,
        planning={
            "timeBudgetSeconds": 1,
            # A first plan made in a hurry could be bettered by more than a little.
            "replan": {"cooldownSeconds": 1, "minImprovementPercent": 1000},
        },
    )
    used = nodes_of(space, "-rollout-") | nodes_of(space, "-trainer-")

    with cordoned(space.cluster, *used):
        found = eventually(lambda: last_replan(space), what="the search for a better plan")
        assert found["reason"] == ReplanReason.FLEET_CHANGED
        assert found["outcome"] in {ReplanOutcome.UNCHANGED, ReplanOutcome.TOO_LITTLE}
        assert events(space, EventReason.REPLAN_REJECTED)
        assert uids(space) == before


@pytest.mark.parametrize(
    ("window_seconds", "outcome", "verdict"),
    [
        pytest.param(86_400, ReplanOutcome.ADOPTED, "adopted", id="day"),
        pytest.param(61, ReplanOutcome.TOO_DEAR, "it does not pay", id="minute"),
    ],
)
def test_cheaper_pool_is_moved_to_only_when_it_pays(
    space: Namespace, operator: OperatorProcess, window_seconds: int, outcome: str, verdict: str
) -> None:
    counted = replans(operator, ReplanReason.FLEET_CHANGED, outcome)
    cheaper = [*nodes_like(space.cluster, "-l4-"), *nodes_like(space.cluster, "-l40s-")]
    with cordoned(space.cluster, *cheaper):
        before = start(
            space,
            training=LONG,
            planning={
                "timeBudgetSeconds": 2,
                "objective": {"cost": {"requiredSamplesPerSecond": 100}},
                "replan": {"cooldownSeconds": 1, "stabilityWindowSeconds": window_seconds},
            },
        )
        dear = space.job()["status"]["plan"]["dollarsPerHour"]

    found = eventually(lambda: last_replan(space), what="the plan is weighed")

    assert found["outcome"] == outcome
    reason = (
        EventReason.REPLANNED if outcome == ReplanOutcome.ADOPTED else EventReason.REPLAN_REJECTED
    )
    message = tells(space, reason)
    assert re.search(r"gains \$\S+/h \(\S+ -> \S+\) over \d+ s = \$\S+; costs \$\S+ \(", message)
    assert message.endswith(verdict)
    assert replans(operator, ReplanReason.FLEET_CHANGED, outcome) == counted + 1
    if outcome == ReplanOutcome.ADOPTED:
        eventually(
            lambda: space.job()["status"]["plan"]["dollarsPerHour"] < dear, what="a cheaper plan"
        )
        space.wait_for_phase("Running")
        assert uids(space, "-coordinator-") == {
            name: uid for name, uid in before.items() if "-coordinator-" in name
        }
    else:
        assert uids(space) == before


def test_price_that_changes_is_a_change_of_the_fleet(space: Namespace) -> None:
    start(
        space,
        training=LONG,
        planning={
            "timeBudgetSeconds": 2,
            "objective": {"cost": {"requiredSamplesPerSecond": 100}},
            "replan": {"cooldownSeconds": 1, "stabilityWindowSeconds": 86_400},
        },
    )
    kinds = {pods["gpuKind"] for pods in space.job()["status"]["podSets"] if "gpuKind" in pods}
    prices = {
        "apiVersion": "hetrl.dev/v1alpha1",
        "kind": "HetRLTopology",
        "metadata": {"name": "prices"},
        "spec": {"gpuKinds": [{"name": each, "dollarsPerHour": 99.0} for each in sorted(kinds)]},
    }

    space.cluster.apply(yaml.safe_dump(prices))
    try:
        found = eventually(lambda: last_replan(space), what="the plan is weighed")
    finally:
        space.cluster.kubectl("delete", "hetrltopology", "prices")

    assert found["outcome"] == ReplanOutcome.ADOPTED
    assert "gains $" in tells(space, EventReason.REPLANNED)


def test_flapping_nodes_are_answered_once_in_a_cooldown(space: Namespace) -> None:
    cooldown = 2 * SETTLE_SECONDS
    before = start(
        space,
        resources=APART,
        rollout={"replicas": 2},
        training=LONG,
        planning={
            "timeBudgetSeconds": 1,
            "replan": {"cooldownSeconds": int(cooldown), "minImprovementPercent": 1000},
        },
    )
    idle = max(set(nodes_like(space.cluster, "-l4-")) - nodes_of(space, "-rollout-"))
    started, times = time.monotonic(), set()

    while time.monotonic() - started < 1.5 * cooldown:
        with cordoned(space.cluster, idle):
            time.sleep(1.0)
        if found := last_replan(space):
            times.add(found["time"])
    with cordoned(space.cluster, idle):
        times.add(eventually(lambda: last_replan(space), what="a search when all is quiet")["time"])

    assert len(times) <= 1 + (time.monotonic() - started) / cooldown
    assert uids(space) == before
