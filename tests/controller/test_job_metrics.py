"""The series of jobs: brought up to date, counted once, ended with the job."""

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from hetrl_operator.http.job_metrics import JobMetrics, JobShown, PodsShown
from hetrl_operator.http.metrics import Metrics
from tests.controller.values import a_plan

JOB = ("team", "math")
RUNNING = JobShown(
    phase="Running",
    plan=a_plan(),
    is_paid=True,
    restarts=2,
    startup_seconds=12.0,
    conditions={"Running": True, "Degraded": False},
    pods=(
        PodsShown(role="rollout", gpu_kind="L4", wanted=2, ready=1),
        PodsShown(role="rollout", gpu_kind="L4", wanted=1, ready=1),
    ),
)


class Shown:
    """A registry with the series of jobs."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = JobMetrics(self.registry)

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def of_job(self, name: str, **labels: str) -> float | None:
        return self.value(name, namespace="team", hetrljob="math", **labels)


@pytest.fixture
def shown() -> Shown:
    found = Shown()
    found.metrics.show(JOB, JobShown(phase="Deploying"))
    found.metrics.show(JOB, RUNNING)
    return found


def test_job_is_in_one_phase(shown: Shown) -> None:
    assert shown.of_job("hetrl_job_phase", phase="Running") == 1
    assert shown.of_job("hetrl_job_phase", phase="Deploying") is None


def test_gpus_are_those_of_the_plan_while_they_are_held(shown: Shown) -> None:
    assert shown.of_job("hetrl_job_gpus", role="trainer", pool="A100-80GB") == 1
    assert shown.of_job("hetrl_job_gpus", role="rollout", pool="L4") == 2
    assert (shown.of_job("hetrl_cost_dollars_per_hour") or 0) > 0

    shown.metrics.show(JOB, replace(RUNNING, phase="Succeeded", is_paid=False))

    assert shown.of_job("hetrl_job_gpus", role="rollout", pool="L4") is None
    assert shown.of_job("hetrl_cost_dollars_per_hour") == 0


def test_pods_of_sets_of_one_kind_are_added_up(shown: Shown) -> None:
    rollouts = {"role": "rollout", "pool": "L4"}
    assert shown.of_job("hetrl_job_pods", **rollouts, state="wanted") == 3
    assert shown.of_job("hetrl_job_pods", **rollouts, state="ready") == 2


def test_conditions_and_restarts_are_the_status_s(shown: Shown) -> None:
    assert shown.of_job("hetrl_job_condition", type="Running") == 1
    assert shown.of_job("hetrl_job_condition", type="Degraded") == 0
    assert shown.of_job("hetrl_job_restarts") == 2


def test_starts_and_ends_are_counted_once_as_they_happen(shown: Shown) -> None:
    for _ in range(3):
        shown.metrics.show(JOB, replace(RUNNING, phase="Failed"))

    assert shown.value("hetrl_job_startup_seconds_sum") == 12
    assert shown.value("hetrl_jobs_ended_total", outcome="Failed") == 1
    assert shown.value("hetrl_jobs_ended_total", outcome="Succeeded") == 0


def test_events_before_the_start_are_not_counted_again() -> None:
    found = Shown()
    found.metrics.show(JOB, RUNNING)
    found.metrics.show(("team", "old"), JobShown(phase="Succeeded"))

    assert found.value("hetrl_job_startup_seconds_count") == 0
    assert found.value("hetrl_jobs_ended_total", outcome="Succeeded") == 0


def test_job_that_is_gone_leaves_no_series(shown: Shown) -> None:
    shown.metrics.drop(JOB)

    left = [
        sample
        for family in shown.registry.collect()
        for sample in family.samples
        if sample.labels.get("hetrljob")
    ]
    assert left == []


def test_fleet_is_counted_by_kind_on_request() -> None:
    registry = CollectorRegistry()
    nodes = [
        {
            "metadata": {"labels": {"nvidia.com/gpu.product": product}},
            "status": {"allocatable": {"nvidia.com/gpu": count}},
        }
        for product, count in (("NVIDIA-L4", "4"), ("NVIDIA-L4", "2"), ("Mystery-9000", "8"))
    ]
    Metrics(registry).watch_fleet(lambda: [*nodes, {"metadata": {"labels": None}}])

    assert registry.get_sample_value("hetrl_fleet_gpus", {"pool": "L4"}) == 6
    assert registry.get_sample_value("hetrl_fleet_gpus", {"pool": "Mystery-9000"}) == 8


@pytest.mark.parametrize(
    ("series", "labels"),
    [
        ("hetrl_planner_solve_duration_seconds_count", {"outcome": "PlannerTrouble"}),
        ("hetrl_replans_total", {"reason": "NodeLost", "outcome": "NoPlan"}),
        ("hetrl_replans_total", {"reason": "NodeLeaving", "outcome": "NoPlan"}),
    ],
)
def test_series_that_alerts_watch_begin_at_zero(series: str, labels: dict[str, str]) -> None:
    registry = CollectorRegistry()
    Metrics(registry)
    assert registry.get_sample_value(series, labels) == 0.0
