"""A real Prometheus beside the cluster, scraping as the chart's PodMonitors say.

The Prometheus operator would turn them into a configuration; here that is done for the few
fields that the chart uses. Debian's Prometheus is built without Kubernetes discovery, so the
pods are listed for it, with the labels that discovery would give them. Pods of our own nodes
are reached through the host's routes.
"""

import contextlib
import json
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.cluster import Cluster
from e2e.cluster.packages import PROMETHEUS_PACKAGES, require_packages

SCRAPE_SECONDS = 2
_START_SECONDS = 60.0
_FIELDS = {
    "sourceLabels": "source_labels",
    "targetLabel": "target_label",
    "replacement": "replacement",
}
"""Prometheus' names of what a PodMonitor's relabelings say."""


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running Prometheus."""

    cluster: Cluster
    folder: Path
    port: int

    def ask(self, query: str) -> list[dict[str, Any]]:
        """Return the series that a query gives now; those that are NaN count as nothing."""
        words = urllib.parse.urlencode({"query": query})
        url = f"http://127.0.0.1:{self.port}/api/v1/query?{words}"
        with urllib.request.urlopen(url, timeout=30) as reply:
            found = json.load(reply)
        assert found["status"] == "success", found
        return [each for each in found["data"]["result"] if each["value"][1] != "NaN"]

    def discover(self) -> None:
        """List the pods that there are now, as targets."""
        pods = json.loads(self.cluster.kubectl("get", "pods", "-A", "-o", "json"))["items"]
        targets = [target for pod in pods for target in _targets(pod)]
        fresh = self.folder / "targets.new"
        fresh.write_text(json.dumps(targets))
        fresh.replace(self.folder / "targets.json")


@contextlib.contextmanager
def prometheus(
    cluster: Cluster, monitors: list[dict[str, Any]], folder: Path
) -> Iterator[Prometheus]:
    """Run Prometheus over a cluster's pods for as long as the context lives."""
    jobs = [job for each in monitors for job in _scrape_jobs(each, folder / "targets.json")]
    with serving({"scrape_configs": jobs}, folder) as port:
        yield Prometheus(cluster, folder, port)


@contextlib.contextmanager
def serving(config: dict[str, Any], folder: Path) -> Iterator[int]:
    """Run Prometheus with a configuration; yield its port once it answers."""
    require_packages(PROMETHEUS_PACKAGES)
    file = folder / "prometheus.yaml"
    every = {"scrape_interval": f"{SCRAPE_SECONDS}s", "scrape_timeout": f"{SCRAPE_SECONDS}s"}
    file.write_text(yaml.safe_dump({"global": every, **config}))
    subprocess.run(["promtool", "check", "config", str(file)], check=True, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={file}",
                f"--storage.tsdb.path={folder / 'data'}",
                "--storage.tsdb.retention.time=100y",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
        try:
            _wait(process, port, folder / "prometheus.log")
            yield port
        finally:
            process.terminate()
            process.wait(timeout=60)


def _wait(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    ends_at = time.monotonic() + _START_SECONDS
    while True:
        assert process.poll() is None, f"Prometheus ended: {log.read_text()[-2000:]}"
        ready = f"http://127.0.0.1:{port}/-/ready"
        with contextlib.suppress(OSError), urllib.request.urlopen(ready, timeout=5):
            return
        assert time.monotonic() < ends_at, f"not ready: {log.read_text()[-2000:]}"
        time.sleep(0.1)


def _scrape_jobs(monitor: dict[str, Any], targets: Path) -> Iterator[dict[str, Any]]:
    spec = monitor["spec"]
    keep = [
        {"action": "keep", "source_labels": [_pod_label(name)], "regex": value}
        for name, value in spec["selector"]["matchLabels"].items()
    ]
    added = [
        {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"},
        {"source_labels": ["__meta_kubernetes_pod_name"], "target_label": "pod"},
    ]
    for number, endpoint in enumerate(spec["podMetricsEndpoints"]):
        port = {
            "action": "keep",
            "regex": endpoint["port"],
            "source_labels": ["__meta_kubernetes_pod_container_port_name"],
        }
        written = [
            {_FIELDS[name]: value for name, value in each.items()}
            for each in endpoint.get("relabelings", ())
        ]
        yield {
            "job_name": f"{monitor['metadata']['name']}/{number}",
            "honor_labels": bool(endpoint.get("honorLabels")),
            "file_sd_configs": [{"files": [str(targets)], "refresh_interval": "2s"}],
            "relabel_configs": [*keep, port, *added, *written],
        }


def _targets(pod: dict[str, Any]) -> Iterator[dict[str, Any]]:
    metadata, address = pod["metadata"], pod["status"].get("podIP")
    ports = [port for each in pod["spec"]["containers"] for port in each.get("ports", ())]
    for port in ports if address else ():
        yield {
            "targets": [f"{address}:{port['containerPort']}"],
            "labels": {
                "__meta_kubernetes_namespace": metadata["namespace"],
                "__meta_kubernetes_pod_name": metadata["name"],
                "__meta_kubernetes_pod_container_port_name": port.get("name", ""),
                **{_pod_label(key): value for key, value in metadata.get("labels", {}).items()},
            },
        }


def _pod_label(name: str) -> str:
    plain = "".join(letter if letter.isalnum() else "_" for letter in name)
    return f"__meta_kubernetes_pod_label_{plain}"
