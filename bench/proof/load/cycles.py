"""Jobs that come and go: memory must not grow with how many there have been.

A cycle ends when the cluster has collected a job's objects, not when the job itself is gone: the
collector is slower than twenty users, and what it has not come to yet is still there to be held.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from bench.proof.load.growth import JOBS
from e2e.faults.api import PATHS
from e2e.load.client import Client, RefusedError, client, until
from e2e.load.crowd import Crowd
from e2e.load.process import load_average, taken
from e2e.load.stage import NAMESPACE, Stage

AT_ONCE = 20
_CYCLE_SECONDS = 600.0
_SETS = PATHS["statefulsets"].format(NAMESPACE)


async def cycled(stage: Stage, *, cycles: int, samples: int) -> dict[str, Any]:
    """Create and delete so many jobs, some at once; read the memory now and then."""
    jobs = Crowd(size=cycles, name="cycle").jobs()
    waiting, readings = iter(jobs), [_reading(stage, 0)]
    done = 0

    async def live(user: Client) -> None:
        nonlocal done
        for job in waiting:
            await _cycle(user, job)
            done += 1
            if done % (cycles // samples) == 0:
                readings.append(_reading(stage, done))

    async with client(stage.admin) as user, asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(live(user))
    return {"cycles": cycles, "readings": readings, "load_average": load_average()}


def _reading(stage: Stage, done: int) -> tuple[int, float, float]:
    now = taken(stage.operator.pid)
    return done, round(now.resident_mib, 1), round(now.cpu_seconds, 1)


async def _cycle(user: Client, job: dict[str, Any]) -> None:
    name = job["metadata"]["name"]
    await user.ask("POST", JOBS, job)
    await until(
        lambda: _exists(user, f"{_SETS}/{name}-coordinator"),
        what=f"{name} has objects",
        seconds=_CYCLE_SECONDS,
    )
    await user.ask("DELETE", f"{JOBS}/{name}")
    for gone in (f"{JOBS}/{name}", f"{_SETS}/{name}-coordinator"):
        await until(partial(_is_gone, user, gone), what=f"{gone} is gone", seconds=_CYCLE_SECONDS)


async def _exists(user: Client, path: str) -> bool:
    try:
        await user.ask("GET", path)
    except RefusedError:
        return False
    return True


async def _is_gone(user: Client, path: str) -> bool:
    return not await _exists(user, path)
