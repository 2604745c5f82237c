"""`hetrl dashboard --job` on a real API server; pods that answer are e2e's."""

import json
import os
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.cluster import Cluster
from tests.api.objects import a_job
from tests.dashboard.serving import dashboard

pytest_plugins = ["e2e.cluster.fixtures"]
pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
SEES_JOBS = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: sees-jobs}
rules: [{apiGroups: [hetrl.dev], resources: [hetrljobs], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: sees-jobs, namespace: watched}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: sees-jobs}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: looker}]
"""


@pytest.fixture(scope="module")
def served(api_server: Cluster) -> Iterator[Cluster]:
    api_server.add_kinds(ROOT / "crds")
    api_server.kubectl("create", "namespace", "watched")
    api_server.kubectl("apply", "-f", "-", stdin=SEES_JOBS)
    yield api_server
    api_server.kubectl("delete", "namespace", "watched", "--wait=false")
    api_server.kubectl("delete", "clusterrole", "sees-jobs")


def a_job_that_runs(cluster: Cluster, name: str) -> None:
    cluster.apply(yaml.safe_dump(a_job({"metadata.name": name, "metadata.namespace": "watched"})))
    tell(cluster, name, phase="Running", restarts=3)


def tell(cluster: Cluster, name: str, **status: Any) -> None:
    cluster.kubectl(
        "patch",
        "hetrljob",
        name,
        "-n",
        "watched",
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps({"status": status}),
    )


def asked(address: str, path: str, **query: str) -> Any:
    with urllib.request.urlopen(f"{address}/{path}?{urllib.parse.urlencode(query)}") as reply:
        return json.load(reply)


def eventually(probe: Callable[[], Any]) -> Any:
    ends_at = time.monotonic() + 60
    while not (found := probe()):
        assert time.monotonic() < ends_at
        time.sleep(0.2)
    return found


def ended(address: str, choice: dict[str, str]) -> bool:
    return not asked(address, "api/figures", board="job", seconds="all", **choice)["isLive"]


def test_job_is_shown_and_recorded_until_it_is_deleted(served: Cluster, tmp_path: Path) -> None:
    a_job_that_runs(served, "math")
    arguments = ["--job=math", "--namespace=watched", str(tmp_path / "records")]

    with dashboard(*arguments, kubeconfig=served.kubeconfig) as address:
        (choice,) = eventually(lambda: asked(address, "api/choices", board="job"))
        assert choice["namespace"] == "watched"
        assert not ended(address, choice)
        figures = asked(address, "api/figures", board="job", seconds="all", **choice)
        (restarts,) = figures["panels"]["Restarts"]["lines"]
        assert restarts["values"][-1] == 3

        served.kubectl("delete", "hetrljob", "math", "-n", "watched")
        eventually(lambda: ended(address, choice))

    # What was recorded is a run like others.
    with dashboard(str(tmp_path / "records")) as address:
        (again,) = asked(address, "api/choices", board="job")
        assert again["hetrljob"].startswith("math-of-watched-")


def test_two_who_look_share_one_record(served: Cluster, tmp_path: Path) -> None:
    a_job_that_runs(served, "shared")
    arguments = ["--job=shared", "--namespace=watched", str(tmp_path)]

    with (
        dashboard(*arguments, kubeconfig=served.kubeconfig) as one,
        dashboard(*arguments, kubeconfig=served.kubeconfig) as other,
    ):
        for address in (one, other):
            assert eventually(lambda at=address: asked(at, "api/choices", board="job"))
    (record,) = tmp_path.glob("*/metrics.jsonl")
    begun = [line for line in record.read_text().splitlines() if json.loads(line).get("begin")]
    assert len(begun) == 1


@pytest.mark.parametrize(
    ("name", "user", "said"),
    [
        pytest.param("missing", None, 'hetrljobs.hetrl.dev "missing" not found', id="no job"),
        pytest.param("closed", "looker", "takes `get` on pods/proxy in watched", id="no right"),
    ],
)
def test_unwatchable_job_is_refused_before_serving(
    served: Cluster, tmp_path: Path, name: str, user: str | None, said: str
) -> None:
    a_job_that_runs(served, "closed")
    kubeconfig = served.kubeconfig_for(user) if user else served.kubeconfig
    done = subprocess.run(
        [
            Path(sys.executable).with_name("hetrl"),
            "dashboard",
            f"--job={name}",
            "--namespace=watched",
            str(tmp_path),
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"KUBECONFIG": str(kubeconfig)},
    )
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
