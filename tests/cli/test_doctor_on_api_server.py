"""`hetrl doctor` on a real API server with ten things wrong at once."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.cluster import Cluster
from tests.api.objects import a_job

ROOT = Path(__file__).parents[2]


def hetrl(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).parent / "hetrl", "doctor", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"KUBECONFIG": str(kubeconfig)},
    )


def found_by(kubeconfig: Path, *arguments: str) -> str:
    done = hetrl(kubeconfig, *arguments, "-n", "ward", "-o", "json")
    assert done.returncode == 1, done.stderr
    return "\n".join(each["said"] for each in json.loads(done.stdout)["findings"])


def patch_status(cluster: Cluster, kind: str, name: str, status: Mapping[str, Any]) -> None:
    place = [] if kind == "node" else ["-n", "ward"]
    cluster.kubectl(
        "patch",
        kind,
        name,
        *place,
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps({"status": status}),
    )


def a_pod(role: str) -> dict[str, Any]:
    labels = {"hetrl.dev/job-name": "sick", "hetrl.dev/role": role}
    container = {"name": role, "image": "nowhere.invalid/hetrl:none"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"sick-{role}-0", "namespace": "ward", "labels": labels},
        "spec": {"containers": [container], "automountServiceAccountToken": False},
    }


def a_node(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


@pytest.fixture(scope="module")
def hospital() -> Iterator[Cluster]:
    """An API server of its own: it begins without HetRL, and nodes are made sick on it."""
    with Cluster.start(name=f"doctor-{os.getpid()}") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def ward(hospital: Cluster) -> dict[str, str]:
    """What was found at each stage of a cluster on which nearly everything is wrong."""
    found = {"bare": found_by(hospital.kubeconfig)}
    hospital.add_kinds(ROOT / "tests" / "fixtures" / "v0.1.0" / "crds")
    found["old"] = found_by(hospital.kubeconfig)
    hospital.add_kinds(ROOT / "crds")
    make_sick(hospital)
    found["sick"] = found_by(hospital.kubeconfig, "sick")
    found["outsider"] = found_by(hospital.kubeconfig_for("outsider"))
    return found


def make_sick(cluster: Cluster) -> None:
    cluster.kubectl("create", "namespace", "ward")
    renewed = (datetime.now(UTC) + timedelta(hours=1)).isoformat(timespec="microseconds")
    objects: list[dict[str, Any]] = [
        a_node("plain"),
        a_node("empty", **{"nvidia.com/gpu.product": "NVIDIA-L4"}),
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "plain", "namespace": "kube-node-lease"},
            "spec": {
                "holderIdentity": "plain",
                "leaseDurationSeconds": 40,
                "renewTime": renewed.replace("+00:00", "Z"),
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "weights", "namespace": "ward"},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
        a_job(
            {
                "metadata.name": "sick",
                "metadata.namespace": "ward",
                "metadata.labels": {"kueue.x-k8s.io/queue-name": "team"},
                "spec.model.source": {"claim": {"name": "weights", "path": "model"}},
            }
        ),
        *(a_pod(role) for role in ("coordinator", "trainer", "rollout")),
    ]
    for each in objects:
        cluster.apply(json.dumps(each))
    patch_status(
        cluster,
        "node",
        "plain",
        {"allocatable": {"nvidia.com/gpu": "8"}, "capacity": {"nvidia.com/gpu": "8"}},
    )
    patch_status(
        cluster,
        "pod",
        "sick-rollout-0",
        container_status(
            "rollout", {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}
        ),
    )
    patch_status(
        cluster,
        "pod",
        "sick-trainer-0",
        container_status(
            "trainer",
            {"terminated": {"exitCode": 1, "message": "[Errno 28] No space left on device"}},
        ),
    )


def container_status(name: str, state: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "containerStatuses": [
            {
                "name": name,
                "image": "nowhere.invalid/hetrl:none",
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": state,
            },
        ]
    }


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        pytest.param("bare", "the cluster knows no HetRLJob", id="missing CRD"),
        pytest.param("old", "HetRLJob is of another release: it has no spec.", id="old CRD"),
        pytest.param("sick", "node plain is left out: ", id="an unlabelled node"),
        pytest.param(
            "sick",
            "node empty is left out: its label names a GPU, but it has no nvidia.com/gpu",
            id="no GPU capacity",
        ),
        pytest.param(
            "sick",
            "claim weights is not bound: the cluster has no default StorageClass",
            id="no storage class",
        ),
        pytest.param("outsider", "you may not create hetrljobs, patch hetrljobs", id="forbidden"),
        pytest.param(
            "sick",
            "sick-coordinator-0 is not ready: the 2 other pods cannot reach it",
            id="unreachable coordinator",
        ),
        pytest.param("sick", "the clock of node plain is 3", id="clock skew"),
        pytest.param(
            "sick",
            "sick-rollout-0 has no image: ImagePullBackOff of nowhere.invalid/hetrl:none",
            id="wrong image",
        ),
        pytest.param("sick", "sick-trainer-0 met a full disk: [Errno 28]", id="full disk"),
        pytest.param("sick", "names queue team, but the cluster has no Kueue", id="no Kueue"),
    ],
)
def test_cause_of_a_broken_set_up_is_named(ward: dict[str, str], stage: str, expected: str) -> None:
    assert expected in ward[stage], ward[stage]


@pytest.mark.cluster
def test_kinds_of_this_release_are_taken_for_what_they_are(ward: dict[str, str]) -> None:
    assert "of another release" not in ward["sick"]


@pytest.mark.cluster
def test_forbidden_facts_are_named_and_not_guessed(hospital: Cluster, ward: dict[str, str]) -> None:
    assert "node plain" not in ward["outsider"]
    done = hetrl(hospital.kubeconfig_for("outsider"), "-n", "ward")
    assert "not checked  nodes: " in done.stdout
