"""Many running jobs: their cost while idle, the latency of status writes, and a restart."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import datetime
from statistics import quantiles
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from bench.proof.load.growth import quiet
from e2e.faults.api import PATHS, eventually
from e2e.faults.audit import WRITES, AuditLog
from e2e.load.client import Client, client
from e2e.load.crowd import Crowd
from e2e.load.process import load_average, taken
from e2e.load.stage import NAMESPACE, Stage, asked, kinds

_PODS = PATHS["pods"].format(NAMESPACE)
_PACE_SECONDS = 0.1
"""Between two events: ten a second, as of a fleet where something always happens."""

_READY_SECONDS = 300.0


async def idle(stage: Stage, *, seconds: float) -> dict[str, Any]:
    """Let nothing happen for so long, but for the nodes' heartbeats."""
    log, before = stage.audit, taken(stage.operator.pid)
    await asyncio.sleep(seconds)
    after = taken(stage.operator.pid)
    return {
        "seconds": round(after.at - before.at),
        "core_share": round(after.cpu_share_since(before), 4),
        "resident_mib": round(after.resident_mib),
        "requests": kinds(asked(log)),
        "load_average": load_average(),
    }


async def status_latencies(stage: Stage, crowd: Crowd, *, events: int) -> dict[str, Any]:
    """Have coordinators' containers stop being ready, one job after another, and be ready again.

    The time is from the API server's receipt of a pod's status to its answer to the write of the
    job's status that follows, both from its audit log.
    """
    log, load = stage.audit, load_average()
    names = [each["metadata"]["name"] for each in crowd.jobs()]
    chosen = [names[number * len(names) // events] for number in range(min(events, len(names)))]
    async with client(stage.admin) as user:
        for ready in (False, True):
            for name in chosen:
                await _say(user, f"{name}-coordinator-0", ready=ready)
                await asyncio.sleep(_PACE_SECONDS)
            await quiet(log)
    seconds = _latencies(log, chosen)
    cuts = quantiles(seconds, n=100)
    return {
        "events": len(seconds),
        "untold": 2 * len(chosen) - len(seconds),
        "p50_seconds": round(cuts[49], 3),
        "p99_seconds": round(cuts[98], 3),
        "worst_seconds": round(max(seconds), 3),
        "load_average": [load, load_average()],
    }


async def restarted(stage: Stage, crowd: Crowd) -> dict[str, Any]:
    """Kill the operator; return when it is ready, when it has reconciled all, what it then wrote.

    It is ready when all that it lists has come; then it reconciles each job once.
    """
    log, load, started = stage.audit, load_average(), time.monotonic()
    stage.operator.kill()
    await asyncio.to_thread(
        eventually, stage.operator.is_ready, what="the operator is ready", seconds=_READY_SECONDS
    )
    ready_seconds = time.monotonic() - started
    await asyncio.to_thread(
        eventually,
        lambda: _has_reconciled(stage.operator.metrics(), jobs=crowd.size),
        what="every job has been reconciled",
        seconds=_READY_SECONDS,
    )
    reconciled_seconds = time.monotonic() - started
    await quiet(log)
    writes = [each for each in asked(log) if each.verb in WRITES]
    children = [each for each in writes if not each.resource.startswith("hetrljobs")]
    return {
        "ready_seconds": round(ready_seconds, 1),
        "looked_at_all_seconds": round(reconciled_seconds, 1),
        "writes": kinds(writes),
        "writes_to_children": len([each for each in children if each.resource != "events"]),
        "cpu_seconds": round(taken(stage.operator.pid).cpu_seconds, 1),
        "peak_mib": round(taken(stage.operator.pid).peak_mib),
        "load_average": [load, load_average()],
    }


def _has_reconciled(metrics: str, *, jobs: int) -> bool:
    """Tell whether as many rounds are done as there are jobs, and no job waits for one."""
    found = [each for family in text_string_to_metric_families(metrics) for each in family.samples]
    rounds = sum(each.value for each in found if each.name == "hetrl_operator_reconcile_total")
    waiting = sum(each.value for each in found if each.name == "hetrl_operator_workqueue_depth")
    return rounds >= jobs and not waiting


async def _say(user: Client, pod: str, *, ready: bool) -> None:
    """Write a pod's conditions as its kubelet would."""
    path = f"{_PODS}/{pod}/status"
    status = (await user.ask("GET", path))["status"]
    word, state = (
        ("True", {"running": {}}) if ready else ("False", {"waiting": {"reason": "Error"}})
    )
    conditions = [
        {**each, "status": word} if each["type"] in {"Ready", "ContainersReady"} else each
        for each in status["conditions"]
    ]
    containers = [{**each, "ready": ready, "state": state} for each in status["containerStatuses"]]
    body = {"status": {"conditions": conditions, "containerStatuses": containers}}
    await user.merge(path, body)


def _latencies(log: AuditLog, names: Sequence[str]) -> list[float]:
    """Return the seconds from each job's news to the next status of it."""
    wanted, since = set(names), dict[str, datetime]()
    found = []
    for each in sorted(log.entries(), key=lambda entry: entry.at):
        name = each.name.removesuffix("-coordinator-0")
        if name not in wanted:
            continue
        if (each.verb, each.resource) == ("patch", "pods/status"):
            since[name] = each.at
        elif each.resource == "hetrljobs/status" and name in since:
            found.append((each.answered_at - since.pop(name)).total_seconds())
    return found
