"""`hetrl plan` against a real API server: its nodes are the fleet."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.cluster.cluster import Cluster
from e2e.cluster.machines import NodePool, kind
from hetrl_cli.cluster.fleet import fleet_of_cluster
from tests.cli.test_plan import write_job

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    pools = [NodePool(name=name, machine=kind(name), count=2) for name in ("a100", "l4")]
    with Cluster.start(name=f"plan-{os.getpid()}", fake_nodes=pools) as running:
        yield running


@pytest.mark.cluster
def test_nodes_of_a_cluster_are_the_fleet(cluster: Cluster, tmp_path: Path) -> None:
    found = subprocess.run(
        [Path(sys.executable).parent / "hetrl", "plan", "-f", write_job(tmp_path), "-o", "yaml"],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"KUBECONFIG": str(cluster.kubeconfig)},
    )

    assert found.returncode == 0, found.stderr
    groups = yaml.safe_load(found.stdout)["spec"]["groups"]
    assert groups[0]["gpuKind"] == "A100-80GB"
    machines = {
        run["machines"] for each in groups for place in each["placements"] for run in place["runs"]
    }
    assert all(name.startswith(("a100-", "l4-")) for name in machines)


@pytest.mark.cluster
def test_changes_by_a_new_plan_are_printed(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add_kinds(ROOT / "crds")
    job = write_job(tmp_path)
    environment = os.environ | {"KUBECONFIG": str(cluster.kubeconfig)}

    def hetrl_plan(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [Path(sys.executable).parent / "hetrl", "plan", "-f", job, *arguments],
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
            env=environment,
        )

    planned = hetrl_plan("--runnable", "-o", "yaml")
    assert planned.returncode == 0, planned.stderr
    followed = yaml.safe_load(planned.stdout)
    name, namespace = followed["metadata"]["name"], followed["metadata"]["namespace"]
    rollouts = next(each for each in followed["spec"]["groups"] if each.get("concurrency"))
    cluster.apply(json.dumps(followed))
    cluster.apply(Path(job).read_text())
    assert "follows no plan yet" in hetrl_plan("--diff").stderr
    cluster.kubectl(
        "patch",
        "hetrljob",
        name,
        "-n",
        namespace,
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps({"status": {"plan": {"name": name, "hash": "0"}}}),
    )

    assert "nothing would change" in hetrl_plan("--diff").stdout
    assert "nothing would change" in hetrl_plan("--diff", name).stdout
    assert '"gone" not found' in hetrl_plan("--diff", "gone").stderr
    for node in {run["machines"] for place in rollouts["placements"] for run in place["runs"]}:
        cluster.kubectl("cordon", node)
    found = hetrl_plan("--diff")
    assert found.returncode == 0, found.stderr
    assert "nothing would change" not in found.stdout
    assert "as if they were free" in found.stdout


def test_topology_prices_nodes_and_adds_none() -> None:
    node = {
        "metadata": {"name": "n", "labels": {"nvidia.com/gpu.product": "NVIDIA-L4"}},
        "status": {"allocatable": {"nvidia.com/gpu": "4"}},
    }
    topology = {
        "apiVersion": "hetrl.dev/v1alpha1",
        "kind": "HetRLTopology",
        "metadata": {"name": "prices"},
        "spec": {
            "gpuKinds": [{"name": "L4", "dollarsPerHour": 0.25}],
            "pools": [{"name": "paper", "gpuKind": "L4", "machines": 9, "gpusPerMachine": 8}],
        },
    }
    fleet = fleet_of_cluster([node], topologies=[topology])
    assert [place.machine.name for place in fleet.places] == ["n"]
    assert [each.dollars_per_hour for each in fleet.gpu_kinds] == [0.25]
