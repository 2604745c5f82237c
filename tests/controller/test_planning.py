"""What planning says of a job: which digests, and when."""

from collections.abc import Iterable
from dataclasses import replace

from prometheus_client import CollectorRegistry

from hetrl_api.topology import HetRLTopology
from hetrl_operator.metrics import Metrics
from hetrl_operator.observe import Body
from hetrl_operator.planning import Planning, planning_key
from hetrl_operator.settings import PlannerSettings
from tests.controller.values import a_job, a_plan_seen, wish_of


class NoNodes:
    """A fleet of nothing."""

    def nodes(self) -> Iterable[Body]:
        return ()

    def topologies(self) -> Iterable[HetRLTopology]:
        return ()

    def fleet_version(self) -> int:
        return 0


def planning() -> Planning:
    return Planning(
        settings=PlannerSettings(), fleet_view=NoNodes(), metrics=Metrics(CollectorRegistry()),
        answered=lambda _: None,
    )  # fmt: skip


def test_a_plan_that_answers_the_job_needs_no_digest_of_the_fleet() -> None:
    job = a_job()
    plan = replace(a_plan_seen(job), planned_for=planning_key(wish_of(job)))

    assert planning().seen(job, plan).key == ""


def test_a_job_that_was_changed_after_its_plan_can_be_planned_anew() -> None:
    job = a_job()
    stale = replace(a_plan_seen(job), planned_for="of-another-wish")

    assert planning().seen(job, stale).key
