"""Kueue beside a cluster: its real controller with its webhooks, as a process of this machine.

Queues and flavors are made by those who use it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.build import KUEUE, folder_of_module
from e2e.cluster.cluster import Cluster
from e2e.cluster.neighbour import Neighbour

NAMESPACE = "kueue-system"
_CONVERTED = {"clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads"}
"""Of the kinds with two versions those whose versions differ in more than their name."""


@contextmanager
def kueue_on(cluster: Cluster, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Install Kueue's kinds and webhooks, and run its controller; the log is in the folder."""
    built = folder_of_module(KUEUE)
    neighbour = Neighbour.prepare("kueue", folder)
    cluster.kubectl("create", "namespace", NAMESPACE)
    kinds = [_kind(each, neighbour) for each in sorted((built / "bases").glob("*.yaml"))]
    cluster.add_kinds(yaml.safe_dump_all(kinds))
    (folder / "config.yaml").write_text(yaml.safe_dump(_configuration(neighbour)))
    with neighbour.running(cluster, _command(built / "kueue", neighbour)) as process:
        manifests = yaml.safe_load_all((built / "webhook" / "manifests.yaml").read_text())
        cluster.apply(
            yaml.safe_dump_all(neighbour.webhooks(each, _is_of_its_kinds) for each in manifests)
        )
        yield process


def _command(program: Path, neighbour: Neighbour) -> list[str]:
    """Start it where /etc holds its certificates: that path is not to be chosen."""
    script = (
        "mount -t tmpfs none /etc && mkdir -p /etc/kueue/metrics && "
        f"cp -r {neighbour.certificates} /etc/kueue/metrics/certs && "
        f"exec {program} --config={neighbour.folder / 'config.yaml'} --zap-log-level=2"
    )
    return ["unshare", "--mount", "--propagation=private", "sh", "-ec", script]


def _configuration(neighbour: Neighbour) -> dict[str, Any]:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        **neighbour.listening(),
        # An API server of its own, on a port that is not to be chosen either.
        "featureGates": {"VisibilityOnDemand": False},
        "integrations": {
            "frameworks": ["batch/job"],
            "externalFrameworks": ["HetRLJob.v1alpha1.hetrl.dev"],
        },
    }


def _kind(path: Path, neighbour: Neighbour) -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load(path.read_text())
    if body["spec"]["names"]["plural"] in _CONVERTED:
        webhook = {
            "clientConfig": neighbour.client("/convert"),
            "conversionReviewVersions": ["v1"],
        }
        body["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    return body


def _is_of_its_kinds(webhook: dict[str, Any]) -> bool:
    """Tell whether it asks about Kueue's own kinds; other kinds would have to be there."""
    return all(rule["apiGroups"] == ["kueue.x-k8s.io"] for rule in webhook["rules"])


def usage(cluster: Cluster, queue: str) -> dict[str, str]:
    """Return what a ClusterQueue counts as used, by flavor and resource, where it is not zero."""
    body = json.loads(cluster.kubectl("get", "clusterqueue", queue, "-o", "json"))
    return {
        f"{flavor['name']} {resource['name']}": resource["total"]
        for flavor in body.get("status", {}).get("flavorsUsage", [])
        for resource in flavor["resources"]
        if resource["total"] not in {"0", 0}
    }
