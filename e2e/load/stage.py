"""A cluster of fake nodes with one operator on it, and what its API server says it was asked."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.cluster import Cluster, control_plane
from e2e.cluster.machines import NodePool
from e2e.faults.api import eventually
from e2e.faults.audit import AuditLog, Entry
from e2e.faults.operator import Operator
from e2e.faults.sweep import namespace_manifest
from e2e.faults.upstream import Upstream

USER = "hetrl-operator-load"
NAMESPACE = "load"
_CRDS = Path("crds")
_READY_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where load is put on."""

    cluster: Cluster
    operator: Operator
    admin: Upstream

    @property
    def audit(self) -> AuditLog:
        """The audit log from now on."""
        assert self.cluster.state
        return AuditLog(path=control_plane(self.cluster.state).audit_log).now()


def asked(log: AuditLog) -> list[Entry]:
    """Return what the operator asked since: neither watches nor its own lease."""
    return [each for each in log.entries() if each.user == USER and each.verb != "watch"]


def kinds(entries: Sequence[Entry]) -> dict[str, int]:
    """Count requests by verb and resource, most first."""
    counted = Counter(f"{each.verb} {each.resource}" for each in entries)
    return dict(counted.most_common())


@contextmanager
def stage(nodes: Sequence[NodePool], folder: Path, **environment: str) -> Iterator[Stage]:
    """Run a cluster with the CRDs and an operator, which is ready."""
    folder.mkdir(parents=True, exist_ok=True)
    with Cluster.start(name=f"load-{folder.name}-{os.getpid()}", fake_nodes=nodes) as cluster:
        cluster.add_kinds(_CRDS)
        with operator_on(cluster, folder, **environment) as found:
            yield found


@contextmanager
def operator_on(cluster: Cluster, folder: Path, **environment: str) -> Iterator[Stage]:
    """Run an operator of its own name on a cluster that has the CRDs."""
    assert cluster.state
    cluster.apply(json.dumps(namespace_manifest(NAMESPACE)))
    operator = Operator(
        kubeconfig=cluster.kubeconfig_for(USER, groups=("system:masters",)),
        log=folder / "operator.log",
        environment=environment,
    )
    operator.start()
    try:
        eventually(operator.is_ready, what="the operator is ready", seconds=_READY_SECONDS)
        yield Stage(
            cluster=cluster,
            operator=operator,
            admin=Upstream.of(control_plane(cluster.state).admin_kubeconfig),
        )
    finally:
        operator.stop()
