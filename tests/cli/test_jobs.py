"""Commands on jobs, against a real API server."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.cluster.cluster import Cluster
from tests.api.objects import a_job
from tests.cli.job_states import RUNNING

pytest_plugins = ["e2e.cluster.fixtures"]

ROOT = Path(__file__).parents[2]


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
def test_job_is_submitted_seen_suspended_resumed_and_scaled(served: Cluster) -> None:
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
def test_impossible_command_is_refused_in_one_line(
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
def test_wrong_job_is_refused_before_it_is_sent(served: Cluster) -> None:
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
def test_job_is_deleted_once(served: Cluster) -> None:
    submitted(served, "goes")
    assert hetrl(served, "delete", "goes", "-n", "team").stdout == "goes deleted\n"
    again = hetrl(served, "delete", "goes", "-n", "team")
    assert again.returncode == 1
    assert again.stderr == "Error: no HetRLJob goes in team\n"
    assert hetrl(served, "delete", "goes", "-n", "team", "--ignore-not-found").returncode == 0


@pytest.mark.slow
def test_missing_cluster_is_named(tmp_path: Path) -> None:
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
