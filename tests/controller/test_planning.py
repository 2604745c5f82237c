"""The state of planning for a job: its digests, and when they change."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from hetrl_api.fleet.topology import HetRLTopology
from hetrl_api.job.status import Progress
from hetrl_api.load import parse
from hetrl_core.job.spec import MeetDeadline
from hetrl_operator.http.metrics import Metrics
from hetrl_operator.model.parse import Body, slim_node
from hetrl_operator.planning.inputs import from_now, planning_key
from hetrl_operator.planning.service import Planning
from hetrl_operator.settings import PlannerSettings
from tests.controller.values import NOW, a_job, a_plan, a_plan_seen, later, parsed_of


@dataclass
class Cluster:
    """Nodes and topologies that a test may change."""

    given: list[Body] = field(default_factory=list)
    prices: list[HetRLTopology] = field(default_factory=list)
    version: int = 0
    changed_at: datetime = NOW

    def nodes(self) -> Iterable[Body]:
        return self.given

    def topologies(self) -> Iterable[HetRLTopology]:
        return self.prices

    def fleet_version(self) -> int:
        return self.version

    def fleet_changed_at(self) -> datetime:
        return self.changed_at

    def change(self, at: datetime, *nodes: Body) -> None:
        self.given, self.version, self.changed_at = list(nodes), self.version + 1, at


def planning(cluster: Cluster | None = None) -> Planning:
    return Planning(
        settings=PlannerSettings(),
        fleet_view=cluster or Cluster(),
        metrics=Metrics(CollectorRegistry()),
        answered=lambda _: None,
    )


def a_node(name: str, product: str = "NVIDIA-L4", **spec: Any) -> Body:
    labels = {"nvidia.com/gpu.product": product, "topology.kubernetes.io/region": "local"}
    return slim_node(
        {
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
            "status": {"allocatable": {"nvidia.com/gpu": "8"}},
        }
    )


def prices(kind: str, dollars: float, *, link: tuple[str, str] | None = None) -> HetRLTopology:
    source, target = link or ("", "")
    links = [{"from": source, "to": target, "bandwidthGbps": 1.0, "latencyMilliseconds": 9.0}]
    spec: dict[str, Any] = {"gpuKinds": [{"name": kind, "dollarsPerHour": dollars}]}
    return parse(
        HetRLTopology,
        {
            "apiVersion": "hetrl.dev/v1alpha1",
            "kind": "HetRLTopology",
            "metadata": {"name": "prices"},
            "spec": {**spec, "links": links if link else []},
        },
    )


def test_job_with_a_plan_needs_no_digest_of_the_fleet() -> None:
    class Unread(Cluster):
        def nodes(self) -> Iterable[Body]:
            raise AssertionError("a digest of a large fleet is costly")

    job, service = a_job(), planning(Unread())
    service.reservations.restore(job.uid, a_plan())

    assert not service.seen(job, a_plan_seen(job)).is_outdated


L4_ONLY = {"pools": [{"name": "l4", "gpuProduct": "L4"}]}


def fleet_key(cluster: Cluster) -> str:
    """The digest of the fleet of a job that uses L4s alone."""
    job = a_job(resources=L4_ONLY)
    plan = replace(a_plan_seen(job), fleet="of another")
    return planning(cluster).fleet(job, plan, NOW).key


@pytest.mark.parametrize(
    ("nodes", "topologies", "is_news"),
    [
        pytest.param([a_node("l4-0")], [], False, id="as-it-was"),
        pytest.param([a_node("l4-0"), a_node("l4-1")], [], True, id="a-node-more"),
        pytest.param([], [], True, id="none"),
        pytest.param([a_node("l4-0", unschedulable=True)], [], True, id="cordoned"),
        pytest.param(
            [a_node("l4-0", taints=[{"key": "mine", "effect": "NoSchedule"}])],
            [],
            True,
            id="tainted",
        ),
        pytest.param(
            [a_node("l4-0"), a_node("a-0", "NVIDIA-A100-SXM4-80GB")],
            [],
            False,
            id="a-node-that-the-job-does-not-use",
        ),
        pytest.param([a_node("l4-0")], [prices("L4", 99.0)], True, id="another-price"),
        pytest.param(
            [a_node("l4-0")], [prices("A100-80GB", 99.0)], False, id="a-price-of-another-kind"
        ),
        pytest.param(
            [a_node("l4-0")],
            [prices("A100-80GB", 99.0, link=("mars", "venus"))],
            False,
            id="a-link-elsewhere",
        ),
    ],
)
def test_fleet_is_what_concerns_the_job(
    nodes: list[Body], topologies: list[HetRLTopology], *, is_news: bool
) -> None:
    before = fleet_key(Cluster([a_node("l4-0")]))

    after = fleet_key(Cluster(nodes, topologies))

    assert (before != after) is is_news


def test_fleet_differs_since_its_first_change_until_it_reverts() -> None:
    cluster, job = Cluster([a_node("l4-0")]), a_job()
    service = planning(cluster)
    plan = replace(a_plan_seen(job), fleet="x")
    plan = replace(plan, fleet=service.fleet(job, plan, NOW).key)
    assert service.fleet(job, plan, NOW).differs_since is None

    cluster.change(later(seconds=1), a_node("l4-0"), a_node("l4-1"))
    assert service.fleet(job, plan, later(seconds=3)).differs_since == later(seconds=1)
    cluster.change(later(seconds=8), a_node("l4-1"))
    assert service.fleet(job, plan, later(seconds=9)).differs_since == later(seconds=1)
    cluster.change(later(seconds=15), a_node("l4-0"))

    assert service.fleet(job, plan, later(seconds=20)).differs_since is None


def test_replan_policy_is_no_part_of_the_cache_key() -> None:
    job = a_job(planning={"replan": {"cooldownSeconds": 7, "stabilityWindowSeconds": 70}})

    assert planning_key(parsed_of(job)) == planning_key(parsed_of(a_job()))


def test_deadline_of_a_running_job_counts_its_remaining_steps() -> None:
    job = a_job(
        training={"steps": 100},
        planning={"objective": {"deadline": {"finishBefore": "2026-01-31T13:59:50Z"}}},
    )
    job = replace(job, status=job.status.model_copy(update={"progress": Progress(step=40)}))

    found = from_now(parsed_of(job).spec, job, later(hours=1) - (NOW - job.created_at))

    assert found
    assert found.training.steps == 60
    assert found.planning.objective == MeetDeadline(3600.0)


def test_gpus_held_by_a_job_stay_usable_on_closed_machines() -> None:
    service = planning()
    service.reservations.restore("uid-1", a_plan())

    assert service.reservations.conflict("uid-1", a_plan(), {}) == ""
    assert service.reservations.conflict("uid-1", a_plan(rollouts=("l4-9",)), {})
    assert service.reservations.conflict("uid-2", a_plan(), {"a100-0": 1, "l4-0": 2})
