"""The check that a converged operator writes nothing."""

from __future__ import annotations

import time

from e2e.cluster.cluster import control_plane
from e2e.faults.api import eventually
from e2e.faults.audit import AuditLog
from e2e.faults.life import Life
from e2e.faults.sweep import USER, Lane, pool_of


def quiet_writes(lane: Lane, *, seconds: float) -> list[str]:
    """Let a job run for so long, restart the operator half-way, and return what was written."""
    assert lane.cluster.state
    eventually(lane.operator.is_ready, what="the operator is ready")
    life = Life(api=lane.api, namespace=lane.namespace, pool=pool_of(lane.number), name="quiet")
    life.run()
    life.rest()
    audit = AuditLog(path=control_plane(lane.cluster.state).audit_log).now()
    time.sleep(seconds / 2)  # that nothing happens, only time can tell
    lane.operator.kill()
    eventually(lane.operator.is_ready, what="the operator is ready again")
    time.sleep(seconds / 2)
    found = [
        f"{each.verb} {each.resource} {each.name}: {each.code}"
        for each in audit.writes_of(f"{USER}-{lane.number}")
    ]
    life.delete()
    return found
