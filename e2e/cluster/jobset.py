"""JobSet beside a cluster: its real controller with its webhooks, as a process of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.build import JOBSET, folder_of_module
from e2e.cluster.cluster import Cluster
from e2e.cluster.neighbour import Neighbour

PATH = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"
_OF_ITS_PODS = {
    "matchExpressions": [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]
}
"""As in its release: other pods are created without asking it."""


@contextmanager
def jobset_on(cluster: Cluster, folder: Path) -> Iterator[None]:
    """Install JobSet's kind and webhooks, and run its controller; the log is in the folder."""
    built = folder_of_module(JOBSET)
    neighbour = Neighbour.prepare("jobset", folder)
    cluster.add_kinds(built / "bases")
    configuration = folder / "config.yaml"
    configuration.write_text(yaml.safe_dump(_configuration(neighbour)))
    with neighbour.running(cluster, [str(built / "jobset"), f"--config={configuration}"]):
        manifests = yaml.safe_load_all((built / "webhook" / "manifests.yaml").read_text())
        cluster.apply(yaml.safe_dump_all(_webhooks(neighbour, each) for each in manifests))
        yield


def _webhooks(neighbour: Neighbour, body: dict[str, Any]) -> dict[str, Any]:
    for each in body["webhooks"]:
        if each["rules"][0]["resources"] == ["pods"]:
            each["objectSelector"] = _OF_ITS_PODS
    return neighbour.webhooks(body, lambda _: True)


def _configuration(neighbour: Neighbour) -> dict[str, Any]:
    """Return what its release says, but for where it listens."""
    return {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        **neighbour.listening(),
    }
