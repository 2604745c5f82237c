"""The pods that may report for a job: its coordinator's alone."""

from typing import Any

import pytest

from hetrl_operator.cache.informer_cache import CHILD_KINDS, InformerCache
from hetrl_operator.model.observed import ChildSeen, PodSeen
from tests.controller.values import a_job, a_pod

JOB = a_job()


def a_set(name: str = "math-coordinator", **changes: Any) -> ChildSeen:
    fields = {"kind": "StatefulSet", "name": name, "uid": "set", "owner_uid": JOB.uid, **changes}
    return ChildSeen(**fields)


def reporting(pod: PodSeen, *sets: ChildSeen) -> frozenset[str]:
    key = (JOB.namespace, JOB.name)
    children: dict[str, dict[Any, list[Any]]] = {kind: {} for kind in CHILD_KINDS}
    children["StatefulSet"] = {key: list(sets)}
    return InformerCache(
        jobs={},
        plans={},
        pods={key: [pod]},
        children=children,
        node_index={},
        topology_index={},
    ).reporting_pods_of(JOB)


@pytest.mark.parametrize(
    ("pod", "sets", "may_report"),
    [
        pytest.param(a_pod("coordinator", set_uid="set"), [a_set()], True, id="own"),
        pytest.param(a_pod("coordinator"), [a_set()], False, id="of-no-set"),
        pytest.param(a_pod("coordinator", set_uid="other"), [a_set()], False, id="of-another-set"),
        pytest.param(a_pod("coordinator", set_uid="set"), [], False, id="set-is-gone"),
        pytest.param(
            a_pod("coordinator", set_uid="set"),
            [a_set(owner_uid="earlier")],
            False,
            id="set-of-an-earlier-job",
        ),
        pytest.param(
            a_pod("coordinator", ordinal=1, set_uid="set"), [a_set()], False, id="second-pod"
        ),
        pytest.param(a_pod("trainer-l4-0", set_uid="set"), [a_set()], False, id="trainer"),
    ],
)
def test_pod_may_report_if_it_is_the_coordinators(
    pod: PodSeen, sets: list[ChildSeen], may_report: bool
) -> None:
    assert reporting(pod, *sets) == (frozenset({pod.uid}) if may_report else frozenset())
