"""A crowd submitted at once: until everything stands, and what the operator asked for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from e2e.faults.api import PATHS
from e2e.faults.audit import AuditLog, Entry
from e2e.load.client import Client, all_of, client, until
from e2e.load.crowd import Crowd
from e2e.load.process import load_average, taken
from e2e.load.stage import NAMESPACE, Stage, asked, kinds

JOBS = PATHS["hetrljobs"].format(NAMESPACE)
_MOST_SECONDS = 5400.0
"""Three thousand jobs, each with pods that wait their turn, on two cores."""
_QUIET_SECONDS = 5.0
_POLL_SECONDS = 5.0
"""A thousand jobs. Times are from the audit log, and their table takes the API server long."""


async def submitted(stage: Stage, crowd: Crowd) -> dict[str, Any]:
    """Submit a crowd, wait until every job runs, and return what it took."""
    log, process = stage.audit, taken(stage.operator.pid)
    async with client(stage.admin) as user:
        load = load_average()
        await all_of(user.ask("POST", JOBS, each) for each in crowd.jobs())
        await until(
            lambda: _all_in(user, crowd.size, {"Running"}),
            what="all jobs run",
            seconds=_MOST_SECONDS,
            every=_POLL_SECONDS * max(1, crowd.size / 1000),
        )
        await quiet(log)
    entries, now = asked(log), taken(stage.operator.pid)
    first = _first_submission(log)
    return {
        "num_jobs": crowd.size,
        "all_differ": crowd.differs,
        "submitted_seconds": _since(first, [e for e in log.entries() if _is_submission(e)]),
        "stateful_sets": len(_created(entries, "statefulsets")),
        "plans_seconds": _since(first, _created(entries, "hetrlplans")),
        "stateful_sets_seconds": _since(first, _created(entries, "statefulsets")),
        "running_seconds": _since(first, _statuses(entries)),
        "num_requests": len(entries),
        "requests_per_job": round(len(entries) / crowd.size, 1),
        "requests": kinds(entries),
        "answers": dict(Counter(str(each.code) for each in entries)),
        "cpu_seconds": round(now.cpu_seconds - process.cpu_seconds, 1),
        "resident_mib": round(now.resident_mib),
        "peak_mib": round(now.peak_mib),
        "planners_mib": round(now.children_mib),
        "load_average": [load, load_average()],
    }


async def quiet(log: AuditLog) -> None:
    """Wait until the operator has asked for nothing for a while."""
    before = -1
    while (count := len(asked(log))) != before:
        before = count
        await asyncio.sleep(_QUIET_SECONDS)


async def removed(stage: Stage) -> float:
    """Delete all jobs, and return the seconds until nothing of them is left."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    async with client(stage.admin) as user:
        await user.ask("DELETE", JOBS)
        await until(lambda: _nothing(user), what="nothing is left", seconds=_MOST_SECONDS)
    return round(loop.time() - started, 1)


async def phases(user: Client) -> Counter[str]:
    """Count jobs by phase."""
    return Counter(await user.column("hetrljobs", "Phase"))


async def _all_in(user: Client, count: int, wanted: set[str]) -> bool:
    found = await phases(user)
    return sum(found[each] for each in wanted) == count


async def _nothing(user: Client) -> bool:
    return not any([await user.count(kind) for kind in ("hetrljobs", "statefulsets", "pods")])


def _is_submission(entry: Entry) -> bool:
    return entry.verb == "create" and entry.resource == "hetrljobs"


def _first_submission(log: AuditLog) -> datetime:
    return min(each.at for each in log.entries() if _is_submission(each))


def _created(entries: Sequence[Entry], resource: str) -> list[Entry]:
    return [each for each in entries if each.resource == resource and each.code == 201]


def _statuses(entries: Sequence[Entry]) -> list[Entry]:
    return [each for each in entries if each.resource == "hetrljobs/status"]


def _since(first: datetime, entries: Sequence[Entry]) -> float:
    last = max((each.at for each in entries), default=first)
    return round((last - first).total_seconds(), 1)
