"""Kueue beside a cluster: its real controller with its webhooks, as a process of this machine.

Its pods' place is taken by the process, its Service's by URLs in the webhooks; queues and flavors
are those who use it to make.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.build import KUEUE, folder_of_module
from e2e.cluster.cluster import Cluster
from e2e.cluster.errors import ClusterError
from hetrl_cli.run.ports import free_ports
from hetrl_operator import identity

NAMESPACE = "kueue-system"
_CONVERTED = {"clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads"}
"""Of the kinds with two versions those whose versions differ in more than their name."""

_READY_SECONDS = 180.0


@contextmanager
def kueue_on(cluster: Cluster, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Install Kueue's kinds and webhooks, and run its controller; the log is in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    webhook_port, health_port = free_ports(2)
    authority = _write_certificates(folder / "certificates")
    built = folder_of_module(KUEUE)
    client = {"caBundle": base64.b64encode(authority).decode()}
    cluster.kubectl("create", "namespace", NAMESPACE)
    kinds = [_kind(each, client, webhook_port) for each in sorted((built / "bases").glob("*.yaml"))]
    cluster.add_kinds(yaml.safe_dump_all(kinds))
    (folder / "config.yaml").write_text(
        yaml.safe_dump(_configuration(folder, webhook_port, health_port))
    )
    with (folder / "kueue.log").open("wb") as log:
        process = subprocess.Popen(
            _command(built / "kueue", folder), stdout=log, stderr=log,
            env=os.environ | {"KUBECONFIG": str(cluster.kubeconfig)},
        )  # fmt: skip
    try:
        _wait_until_ready(process, health_port, folder / "kueue.log")
        manifests = yaml.safe_load_all((built / "webhook" / "manifests.yaml").read_text())
        cluster.apply(
            yaml.safe_dump_all(_webhooks(each, client, webhook_port) for each in manifests)
        )
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def _command(program: Path, folder: Path) -> list[str]:
    """Start it where /etc holds its certificates: that path is not to be chosen."""
    script = (
        "mount -t tmpfs none /etc && mkdir -p /etc/kueue/metrics && "
        f"cp -r {folder / 'certificates'} /etc/kueue/metrics/certs && "
        f"exec {program} --config={folder / 'config.yaml'} --zap-log-level=2"
    )
    return ["unshare", "--mount", "--propagation=private", "sh", "-ec", script]


def _configuration(folder: Path, webhook_port: int, health_port: int) -> dict[str, Any]:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health_port}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {
            "host": "127.0.0.1", "port": webhook_port, "certDir": str(folder / "certificates"),
        },
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        # An API server of its own, on a port that is not to be chosen either.
        "featureGates": {"VisibilityOnDemand": False},
        "integrations": {
            "frameworks": ["batch/job"],
            "externalFrameworks": ["HetRLJob.v1alpha1.hetrl.dev"],
        },
    }  # fmt: skip


def _kind(path: Path, client: dict[str, str], port: int) -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load(path.read_text())
    if body["spec"]["names"]["plural"] in _CONVERTED:
        at = {**client, "url": f"https://localhost:{port}/convert"}
        webhook = {"clientConfig": at, "conversionReviewVersions": ["v1"]}
        body["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    return body


def _webhooks(body: dict[str, Any], client: dict[str, str], port: int) -> dict[str, Any]:
    """Keep the webhooks of Kueue's own kinds; those of other kinds need these to be there."""
    kept = [
        each
        for each in body["webhooks"]
        if all(rule["apiGroups"] == ["kueue.x-k8s.io"] for rule in each["rules"])
    ]
    for each in kept:
        path = each["clientConfig"]["service"]["path"]
        each["clientConfig"] = {**client, "url": f"https://localhost:{port}{path}"}
    return {**body, "metadata": {"name": f"kueue-{body['kind'].lower()}"}, "webhooks": kept}


def _write_certificates(folder: Path) -> bytes:
    folder.mkdir(parents=True, exist_ok=True)
    issued = identity.issue(
        seed=os.urandom(32), job="operator", dns_names=(), now=datetime.now(UTC)
    )
    leaf = issued.leaves[0][1]
    (folder / "tls.crt").write_bytes(leaf.certificate)
    (folder / "tls.key").write_bytes(leaf.key)
    return issued.authority


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    ends_at = time.monotonic() + _READY_SECONDS
    while time.monotonic() < ends_at:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as reply:
                if reply.status == 200:
                    return
        except OSError:
            time.sleep(0.2)
    raise ClusterError(f"Kueue is not ready; its log ends: {log.read_text()[-3000:]}")


def usage(cluster: Cluster, queue: str) -> dict[str, str]:
    """Return what a ClusterQueue counts as used, by flavor and resource, where it is not zero."""
    body = json.loads(cluster.kubectl("get", "clusterqueue", queue, "-o", "json"))
    return {
        f"{flavor['name']} {resource['name']}": resource["total"]
        for flavor in body.get("status", {}).get("flavorsUsage", [])
        for resource in flavor["resources"]
        if resource["total"] not in {"0", 0}
    }
