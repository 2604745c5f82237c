"""Tables of jobs, and what they say of one."""

from datetime import UTC, datetime
from typing import Any

import pytest

from hetrl_cli.console import PlainConsole
from hetrl_cli.jobs.job_view import JobView, ago, span
from hetrl_cli.jobs.status import listed, of_plan, of_plans, of_preflight, of_progress
from hetrl_cli.jobs.top import steps, summary
from hetrl_cli.tables.table import pairs
from hetrl_operator.model.labels import REPLACED_AT, REPLACED_BECAUSE
from tests.api.objects import a_job
from tests.cli.job_states import RUNNING


def a_job_view(status: dict[str, Any] | None = None, *, name: str = "tiny") -> JobView:
    job = a_job({"metadata.name": name, "metadata.namespace": "team"})
    return JobView(job | {"status": status} if status else job)


def printed(table: object) -> str:
    console = PlainConsole(width=200, color_system=None)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0s"), (59.9, "59s"), (60, "1m"), (192, "3m12s"), (86_400, "1d"), (93_600, "1d2h")],
)
def test_duration_is_said_in_its_two_largest_units(seconds: float, said: str) -> None:
    assert span(seconds) == said


def test_age_counts_from_what_the_server_wrote() -> None:
    now = datetime(2026, 1, 1, 0, 1, 30, tzinfo=UTC)
    assert ago("2026-01-01T00:00:00Z", now=now) == "1m30s"
    assert ago(None) == "-"


def test_notes_of_a_preflight_are_shown_as_they_are() -> None:
    note = "1 of 3 prompts are left out: '[/INST] [bold]'"
    checked = a_job_view(RUNNING | {"preflight": {"notes": [note]}})

    assert note in printed(pairs("Preflight", of_preflight(checked)))
    assert of_preflight(a_job_view(RUNNING)) == []


def test_notices_are_shown_as_they_are() -> None:
    notice = "2 of 4 answers hold no value, the first on line 3: '[/INST] [bold]'"
    noticed = RUNNING | {"progress": {"step": 1, "totalSteps": 20, "notices": [notice]}}

    assert notice in printed(pairs("Progress", of_progress(a_job_view(noticed))))


def test_running_job_is_listed_with_its_progress() -> None:
    (row,) = printed(listed([a_job_view(RUNNING)], with_namespace=True)).splitlines()[1:]
    for cell in (
        "team",
        "Running",
        "5/20",
        "0.625",
        "12.5",
        "2 of",
        "1/1",
        "1/2",
        "3.50",
        "1m30s",
        "RolloutBelowDesired: 1 of 2 rollout pods are ready",
    ):
        assert cell in row


def test_inference_pods_are_listed_where_a_job_has_some() -> None:
    apart = RUNNING | {"inference": {"replicas": 4, "readyReplicas": 3}}
    jobs = [a_job_view(RUNNING), a_job_view(apart, name="apart")]

    for table in (listed, steps):
        head, *rows = printed(table(jobs, with_namespace=False)).splitlines()
        assert "inference" in head
        assert ["3/4" in row for row in rows] == ["apart" in row for row in rows]
        assert "inference" not in printed(table(jobs[:1], with_namespace=False))


def test_inference_pods_that_are_awaited_are_said_to_be() -> None:
    starts = {
        "type": "InferenceReady",
        "status": "False",
        "reason": "Starting",
        "message": "0 of 1",
    }
    assert a_job_view({"conditions": [starts]}).why == "Starting: 0 of 1"


def test_plan_is_shown_with_the_result_of_the_last_replan() -> None:
    last = {
        "time": datetime.now(UTC).isoformat(),
        "plan": "tiny-plan",
        "reason": "FleetChanged",
        "outcome": "TooDear",
        "message": "gains 3 samples/s",
    }
    rows = dict(of_plan(a_job_view(RUNNING | {"lastReplan": last})))

    assert rows["price"] == "3.50 $/h"
    assert rows["another plan"].endswith("ago, for FleetChanged: TooDear; gains 3 samples/s")
    assert "another plan" not in dict(of_plan(a_job_view(RUNNING)))
    assert of_plan(a_job_view()) == []


def test_previous_plans_are_shown_with_why_they_were_replaced() -> None:
    spec = {"numGPUs": 8, "prediction": {"samplesPerSecond": 96.125, "dollarsPerHour": 22.9}}
    past = {
        REPLACED_AT: datetime.now(UTC).isoformat(),
        REPLACED_BECAUSE: "SpecChanged: 2 -> 3 pods",
    }
    plans = [
        {"metadata": {"name": name, "annotations": notes}, "spec": spec}
        for name, notes in (("tiny-plan", {}), ("tiny-old", past), ("tiny-new", {}))
    ]
    job = a_job_view(RUNNING | {"plan": {"name": "tiny-plan", "hash": "0"}})

    _, _, followed, old, new = printed(of_plans(job, plans)).splitlines()

    assert followed.split() == ["tiny-plan", "8", "96.12", "22.90", "-", "followed"]
    assert old.rstrip().endswith("s ago; SpecChanged: 2 -> 3 pods")
    assert new.rstrip().endswith("-"), "what is neither followed nor past says nothing"


def test_job_without_status_is_pending() -> None:
    (row,) = printed(listed([a_job_view()], with_namespace=False)).splitlines()[1:]
    assert row.split()[:2] == ["tiny", "Pending"]


def test_job_that_ends_first_is_on_top() -> None:
    late = RUNNING | {"progress": {"etaSeconds": 1e6, "step": 1, "totalSteps": 20}}
    jobs = [a_job_view(name="waits"), a_job_view(late, name="late"), a_job_view(RUNNING)]
    names = [line.split()[0] for line in printed(steps(jobs, with_namespace=False)).splitlines()]
    assert names[1:] == ["tiny", "late", "waits"]
    assert printed(summary(jobs)).strip() == "3 jobs, 2 running: 12.5 samples/s, 7.00 $/h"


@pytest.mark.parametrize(
    ("kind", "expected"), [("Complete", True), ("Failed", False), ("Running", None)]
)
def test_job_has_ended_once_it_is_complete_or_failed(kind: str, expected: bool | None) -> None:
    assert a_job_view({"conditions": [{"type": kind, "status": "True"}]}).has_succeeded is expected


# On a real API server.
