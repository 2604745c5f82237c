"""Taints and notices of nodes: which repel new pods, which evict pods, and which only wait."""

from typing import Any

import pytest

from hetrl_api.fleet.departure import NOTICES, departure
from hetrl_api.job.runtime import TaintEffect, Toleration, TolerationOperator
from hetrl_operator.model.nodes import must_leave, untolerated
from hetrl_operator.model.parse import slim_node
from tests.controller.values import NOW, a_pod

EVERYTHING = (Toleration(operator=TolerationOperator.EXISTS),)


def a_node(*, cordoned: bool = False, taint: str = "", **metadata: Any) -> Any:
    """A slim Node; a taint is written ``key=value:Effect``."""
    key, _, effect = taint.partition(":")
    name, _, value = key.partition("=")
    taints = [{"key": name, "value": value, "effect": effect}] if taint else []
    return slim_node(
        {
            "metadata": {"name": "l4-0", "labels": {"kubernetes.io/hostname": "l4-0"}, **metadata},
            "spec": {"unschedulable": cordoned, "taints": taints},
            "status": {},
        }
    )


@pytest.mark.parametrize("key", sorted(NOTICES))
@pytest.mark.parametrize("where", ["taint", "labels", "annotations"])
def test_notice_is_one_wherever_it_is_written(key: str, where: str) -> None:
    node = a_node(taint=f"{key}:NoSchedule") if where == "taint" else a_node(**{where: {key: ""}})

    assert key in departure(node)
    assert must_leave(node, EVERYTHING, ()), "no toleration keeps a machine alive"


@pytest.mark.parametrize(
    ("node", "tolerations", "leaves"),
    [
        pytest.param(a_node(), (), False, id="well"),
        pytest.param(a_node(cordoned=True), (), False, id="cordoned"),
        pytest.param(a_node(taint="mine:NoSchedule"), (), False, id="no-schedule"),
        pytest.param(a_node(taint="mine:NoExecute"), (), True, id="no-execute"),
        pytest.param(a_node(taint="mine:NoExecute"), EVERYTHING, False, id="tolerated"),
        pytest.param(
            a_node(taint="mine=a:NoExecute"),
            (Toleration(key="mine", value="b", effect=TaintEffect.NO_EXECUTE),),
            True,
            id="another-value-tolerated",
        ),
        pytest.param(
            a_node(taint="node.kubernetes.io/unreachable:NoExecute"), (), False, id="not-answering"
        ),
        pytest.param(a_node(deletionTimestamp="2026-01-01T00:00:00Z"), (), True, id="deleted"),
    ],
)
def test_pods_leave_what_evicts_them_and_nothing_else(
    node: Any, tolerations: tuple[Toleration, ...], *, leaves: bool
) -> None:
    assert bool(must_leave(node, tolerations, ())) is leaves


def test_cordoned_machine_is_left_when_a_pod_waits_for_it() -> None:
    node = a_node(cordoned=True)
    waits = a_pod(
        "rollout-l4-0", affinity_nodes=frozenset({"l4-0"}), unschedulable_since=NOW, is_ready=False
    )

    assert must_leave(node, (), (waits,)) == "cordoned, and a pod waits for it"
    assert not must_leave(node, (), (a_pod("rollout-l4-0", node="l4-0"),))
    assert not must_leave(a_node(), (), (waits,)), "an open machine may only be full"


@pytest.mark.parametrize(
    ("taint", "kept_away"),
    [
        ("mine=a:NoSchedule", True),
        ("mine:PreferNoSchedule", False),
        ("nvidia.com/gpu=present:NoSchedule", False),
    ],
)
def test_new_pods_avoid_taints_that_they_do_not_tolerate(taint: str, *, kept_away: bool) -> None:
    found = untolerated(a_node(taint=taint), ())

    assert found == (f"taint {taint} is not tolerated" if kept_away else "")
