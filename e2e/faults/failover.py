"""Two replicas of which one is killed: how soon the other acts, and what is made twice."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from e2e.cluster.cluster import Cluster, control_plane
from e2e.faults.api import Api, eventually
from e2e.faults.audit import AuditLog, creates
from e2e.faults.life import Life
from e2e.faults.operator import Operator
from e2e.faults.sweep import USER, namespace_manifest, pool_of
from e2e.faults.upstream import Upstream

NAMESPACE = "replicas"
_LEADS = "hetrl_operator_leader 1.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """One killed leader."""

    seconds: float
    """From its death to the first write of the other for a job."""

    made_twice: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """Two operators on one cluster, distinguished by their users."""

    operators: dict[str, Operator]
    api: Api
    audit: AuditLog

    def leader(self) -> str:
        """Return the user of the replica that leads."""
        return eventually(self._leader, what="a replica leads")

    def kill_leader(self, name: str) -> Takeover:
        """Kill the leader in the middle of a new job's creation; return what the other did.

        The dead one comes back only when the other has taken over, as after the loss of a node.
        """
        life = Life(api=self.api, namespace=NAMESPACE, pool=pool_of(0), name=name)
        old = self.leader()
        standby = next(user for user in self.operators if user != old)
        eventually(self.operators[standby].is_ready, what="the other replica stands by")
        audit = self.audit.now()
        life.create()
        eventually(lambda: life.objects("statefulsets"), what="the job is being created")
        killed_at = datetime.now(UTC)
        self.operators[old].stop(signal.SIGKILL)
        # Whatever the leader had done by then, this is left to the other.
        life.suspend()
        entries = audit.writes_of(*self.operators)
        first = min(
            each.at
            for each in entries
            if each.user == standby and each.at > killed_at and each.resource != "leases"
        )
        twice = tuple(place for place, count in creates(entries).items() if count > 1)
        life.delete()
        self.operators[old].start()
        return Takeover(seconds=(first - killed_at).total_seconds(), made_twice=twice)

    def _leader(self) -> str:
        leading = [user for user, each in self.operators.items() if _leads(each)]
        return leading[0] if len(leading) == 1 else ""


@contextmanager
def replicas(cluster: Cluster, folder: Path) -> Iterator[Replicas]:
    """Yield two replicas."""
    assert cluster.state
    folder.mkdir(parents=True, exist_ok=True)
    cluster.apply(json.dumps(namespace_manifest(NAMESPACE)))
    users = [f"{USER}-replica-{letter}" for letter in "ab"]
    operators = {
        user: Operator(
            kubeconfig=cluster.kubeconfig_for(user, groups=("system:masters",)),
            log=folder / f"{user}.log",
            environment={
                "HETRL_LEASE_NAMESPACE": NAMESPACE,
                "HETRL_POD": user,
                "HETRL_WATCH_NAMESPACES": NAMESPACE,
            },
        )
        for user in users
    }
    plane = control_plane(cluster.state)
    started: list[Operator] = []
    try:
        for each in operators.values():
            each.start()
            started.append(each)
        yield Replicas(
            operators=operators,
            api=Api(upstream=Upstream.of(plane.admin_kubeconfig)),
            audit=AuditLog(path=plane.audit_log),
        )
    finally:
        for each in started:
            each.stop()


def _leads(operator: Operator) -> bool:
    try:
        return _LEADS in operator.metrics()
    except OSError:
        return False
