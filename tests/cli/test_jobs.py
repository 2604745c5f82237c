"""Commands on jobs in a cluster: what is printed, and what a real API server is asked."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from e2e.cluster.cluster import Cluster
from hetrl_cli.jobs.job_view import JobView, ago, span
from hetrl_cli.jobs.status import listed, of_plan, of_plans
from hetrl_cli.jobs.top import steps, summary
from hetrl_operator.model.labels import REPLACED_AT, REPLACED_BECAUSE
from tests.api.objects import a_job

pytest_plugins = ["e2e.cluster.fixtures"]

ROOT = Path(__file__).parents[2]
RUNNING = {
    "phase": "Running",
    "conditions": [
        {
            "type": "Degraded",
            "status": "True",
            "reason": "RolloutBelowDesired",
            "message": "1 of 2 rollout pods are ready",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        },
    ],
    "plan": {"name": "tiny-plan", "hash": "0", "dollarsPerHour": 3.5},
    "progress": {
        "step": 5,
        "totalSteps": 20,
        "samplesPerSecond": 12.5,
        "policyVersion": 5,
        "stalenessP95": 2.0,
        "reward": 0.625,
        "etaSeconds": 90.0,
    },
    "trainer": {"replicas": 1, "readyReplicas": 1},
    "rollout": {"replicas": 2, "readyReplicas": 1},
    "podSets": [
        {
            "name": "rollout-l4",
            "role": "rollout",
            "gpuKind": "L4",
            "replicas": 2,
            "readyReplicas": 1,
        },
    ],
}


def a_job_view(status: dict[str, Any] | None = None, *, name: str = "tiny") -> JobView:
    job = a_job({"metadata.name": name, "metadata.namespace": "team"})
    return JobView(job | {"status": status} if status else job)


def printed(table: object) -> str:
    console = Console(width=200, color_system=None)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0s"), (59.9, "59s"), (60, "1m"), (192, "3m12s"), (86_400, "1d"), (93_600, "1d2h")],
)
def test_a_duration_is_said_in_its_two_largest_units(seconds: float, said: str) -> None:
    assert span(seconds) == said


def test_an_age_counts_from_what_the_server_wrote() -> None:
    now = datetime(2026, 1, 1, 0, 1, 30, tzinfo=UTC)
    assert ago("2026-01-01T00:00:00Z", now=now) == "1m30s"
    assert ago(None) == "-"


def test_a_running_job_is_listed_with_what_it_does() -> None:
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


def test_the_job_that_ends_first_is_on_top() -> None:
    late = RUNNING | {"progress": {"etaSeconds": 1e6, "step": 1, "totalSteps": 20}}
    jobs = [a_job_view(name="waits"), a_job_view(late, name="late"), a_job_view(RUNNING)]
    names = [line.split()[0] for line in printed(steps(jobs, with_namespace=False)).splitlines()]
    assert names[1:] == ["tiny", "late", "waits"]
    assert printed(summary(jobs)).strip() == "3 jobs, 2 running: 12.5 samples/s, 7.00 $/h"


@pytest.mark.parametrize(
    ("kind", "expected"), [("Complete", True), ("Failed", False), ("Running", None)]
)
def test_a_job_has_ended_once_it_is_complete_or_failed(kind: str, expected: bool | None) -> None:
    assert a_job_view({"conditions": [{"type": kind, "status": "True"}]}).has_succeeded is expected


# On a real API server.


@pytest.fixture(scope="module")
def served(api_server: Cluster) -> Iterator[Cluster]:
    api_server.add_kinds(ROOT / "crds")
    api_server.kubectl("create", "namespace", "team")
    yield api_server
    api_server.kubectl("delete", "namespace", "team", "--wait=false")


def hetrl(cluster: Cluster, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).parent / "hetrl", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        input=stdin,
        env=os.environ | {"KUBECONFIG": str(cluster.kubeconfig)},
    )


def submitted(cluster: Cluster, name: str) -> None:
    job = a_job({"metadata.name": name, "metadata.namespace": "team"})
    done = hetrl(cluster, "submit", "-f", "-", stdin=yaml.safe_dump(job))
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"hetrljob team/{name} created\n"


def field(cluster: Cluster, name: str, path: str) -> str:
    return cluster.kubectl("get", "hetrljob", name, "-n", "team", "-o", f"jsonpath={{{path}}}")


@pytest.mark.cluster
def test_a_job_is_submitted_seen_suspended_resumed_and_scaled(served: Cluster) -> None:
    submitted(served, "life")
    served.kubectl(
        "patch",
        "hetrljob",
        "life",
        "-n",
        "team",
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps({"status": RUNNING}),
    )

    table = hetrl(served, "status", "-n", "team").stdout
    assert "life" in table
    assert "Running" in table
    one = hetrl(served, "status", "life", "-n", "team").stdout
    assert "1 of 2 rollout pods are ready" in one
    assert "rollout-l4" in one
    found = json.loads(hetrl(served, "status", "life", "-n", "team", "-o", "json").stdout)
    assert found["status"]["progress"]["step"] == RUNNING["progress"]["step"]
    assert "5/20" in hetrl(served, "top", "--all-namespaces", "--once").stdout

    assert hetrl(served, "suspend", "life", "-n", "team", "--no-wait").returncode == 0
    assert field(served, "life", ".spec.suspend") == "true"
    assert hetrl(served, "resume", "life", "-n", "team").returncode == 0
    assert field(served, "life", ".spec.suspend") == "false"
    assert hetrl(served, "scale", "life", "-n", "team", "--replicas", "1").returncode == 0
    assert field(served, "life", ".spec.rollout.replicas") == "1"


@pytest.mark.cluster
def test_events_are_printed_oldest_first(served: Cluster) -> None:
    submitted(served, "eventful")
    uid = field(served, "eventful", ".metadata.uid")
    for number, reason in enumerate(("PlanStarted", "GangStarted")):
        served.apply(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Event",
                    "type": "Normal",
                    "reason": reason,
                    "metadata": {"name": f"event-{number}", "namespace": "team"},
                    "message": "as written",
                    "involvedObject": {
                        "kind": "HetRLJob",
                        "name": "eventful",
                        "namespace": "team",
                        "uid": uid,
                    },
                    "lastTimestamp": f"2026-01-01T00:00:0{number}Z",
                }
            )
        )
    lines = hetrl(served, "events", "eventful", "-n", "team").stdout.splitlines()
    assert [line.split()[2] for line in lines] == ["PlanStarted:", "GangStarted:"]


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["status", "missing"], 'hetrljobs.hetrl.dev "missing" not found', id="no job"),
        pytest.param(["logs", "quiet"], "quiet has no pods now", id="no pods"),
        pytest.param(["logs", "quiet", "-f", "-p"], "--previous", id="contradiction"),
        pytest.param(["scale", "quiet", "--replicas", "-1"], "--replicas", id="a bad number"),
        pytest.param(["suspend", "quiet", "--timeout", "1"], "not within 1 s", id="a deadline"),
        pytest.param(["suspend", "ended"], "ended has ended", id="an ended job"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    served: Cluster, arguments: list[str], said: str
) -> None:
    for name in ("quiet", "ended"):
        served.apply(json.dumps(a_job({"metadata.name": name, "metadata.namespace": "team"})))
    ended = {
        "type": "Failed",
        "status": "True",
        "reason": "TrainerFailed",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    served.kubectl(
        "patch",
        "hetrljob",
        "ended",
        "-n",
        "team",
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps({"status": {"conditions": [ended]}}),
    )
    done = hetrl(served, *arguments, "-n", "team")
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.cluster
def test_a_wrong_job_is_refused_before_it_is_sent(served: Cluster) -> None:
    wrong = a_job(
        {"metadata.name": "wrong", "metadata.namespace": "team", "spec.training.steps": 0}
    )
    done = hetrl(served, "submit", "-f", "-", stdin=yaml.safe_dump(wrong))
    assert done.returncode == 1
    assert "spec.training.steps" in done.stderr
    assert "wrong" not in served.kubectl("get", "hetrljobs", "-n", "team", "-o", "name")


@pytest.mark.cluster
def test_following_ends_as_the_job_does(served: Cluster) -> None:
    submitted(served, "ends")
    complete = {
        "type": "Complete",
        "status": "True",
        "reason": "AllStepsDone",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    served.kubectl(
        "patch",
        "hetrljob",
        "ends",
        "-n",
        "team",
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps({"status": RUNNING | {"conditions": [complete]}}),
    )
    job = a_job({"metadata.name": "ends", "metadata.namespace": "team"})
    done = hetrl(served, "submit", "-f", "-", "--follow", stdin=yaml.safe_dump(job))
    assert done.returncode == 0, done.stderr
    assert "step 5/20  reward 0.625" in done.stdout


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("status", "code", "printed"),
    [
        pytest.param("True", 0, "planned: 3 GPUs", id="a plan"),
        pytest.param("False", 2, "no plan: Infeasible: 3 GPUs", id="none"),
    ],
)
def test_following_until_a_job_is_planned_ends_as_planning_does(
    served: Cluster, status: str, code: int, printed: str
) -> None:
    name = f"planned-{code}"
    submitted(served, name)
    planned = {
        "type": "Planned",
        "status": status,
        "reason": "Infeasible",
        "message": "3 GPUs",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    served.kubectl(
        "patch",
        "hetrljob",
        name,
        "-n",
        "team",
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps({"status": {"conditions": [planned]}}),
    )
    job = a_job({"metadata.name": name, "metadata.namespace": "team"})
    done = hetrl(served, "submit", "-f", "-", "--until", "planned", stdin=yaml.safe_dump(job))
    assert done.returncode == code
    assert printed in done.stdout + done.stderr


@pytest.mark.cluster
def test_a_job_is_deleted_once(served: Cluster) -> None:
    submitted(served, "goes")
    assert hetrl(served, "delete", "goes", "-n", "team").stdout == "goes deleted\n"
    again = hetrl(served, "delete", "goes", "-n", "team")
    assert again.returncode == 1
    assert again.stderr == "Error: no HetRLJob goes in team\n"
    assert hetrl(served, "delete", "goes", "-n", "team", "--ignore-not-found").returncode == 0


@pytest.mark.slow
def test_without_a_cluster_a_command_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "hetrl", "status"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"KUBECONFIG": str(tmp_path / "none")},
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Error: no cluster:")
