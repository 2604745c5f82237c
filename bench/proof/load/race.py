"""Jobs that want the same GPUs: never more promised than exist, and everybody's turn comes."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from bench.proof.load.growth import JOBS, quiet, removed
from e2e.faults.api import PATHS
from e2e.faults.life import a_job
from e2e.load.client import Client, all_of, client, until
from e2e.load.process import load_average
from e2e.load.stage import NAMESPACE, Stage
from hetrl_api.load import parse
from hetrl_api.plan.plan import HetRLPlan
from hetrl_api.plan.to_core import to_plan
from hetrl_operator.model.labels import JOB_UID, PLANNED_FOR
from hetrl_operator.planning.reservations import gpus_by_machine

_MOST_SECONDS = 900.0
_PATHS = {kind: path.format(NAMESPACE) for kind, path in PATHS.items()}
RACERS = 50


def wide(name: str, gpus: int) -> dict[str, Any]:
    """Return a job that takes exactly so many L4s."""
    job = a_job(name, {"name": "l4", "gpuProduct": "L4"})
    job["spec"]["resources"]["maxGPUs"] = gpus
    job["spec"]["rollout"] = {"replicas": gpus - 1}
    return job


async def two(stage: Stage, *, gpus: int) -> dict[str, Any]:
    """Submit two jobs that each want more than half of a fleet; end the first."""
    each = gpus // 2 + 1
    async with client(stage.admin) as user:
        await all_of(user.ask("POST", JOBS, wide(name, each)) for name in ("one", "two"))
        first = await until(lambda: _running(user, 1), what="one runs", seconds=_MOST_SECONDS)
        (second,) = {"one", "two"} - first
        said = await until(
            lambda: _said(user, second), what="the other says why", seconds=_MOST_SECONDS
        )
        promised = await most_promised(user)
        await user.ask("DELETE", f"{JOBS}/{min(first)}")
        started = asyncio.get_running_loop().time()
        await until(lambda: _running(user, 1, but=first), what="then it", seconds=_MOST_SECONDS)
        seconds = asyncio.get_running_loop().time() - started
    await removed(stage)
    return {
        "said": said,
        "overlaps": promised,
        "started_after_seconds": round(seconds, 1),
        "load_average": load_average(),
    }


async def fifty(stage: Stage, *, gpus: int) -> dict[str, Any]:
    """Submit fifty jobs to a fleet that holds few at once; each ends as soon as it runs."""
    log, load = stage.audit, load_average()
    loop, done, overlaps = asyncio.get_running_loop(), dict[str, float](), set[str]()
    names = [f"racer-{number}" for number in range(RACERS)]
    sizes = dict(zip(names, [2, 3, 4, gpus // 2 + 1, 2] * (RACERS // 5), strict=True))
    async with client(stage.admin) as user:
        started = loop.time()
        await all_of(user.ask("POST", JOBS, wide(name, sizes[name])) for name in names)
        while len(done) < RACERS and loop.time() - started < _MOST_SECONDS:
            overlaps |= set(await most_promised(user))
            for name in await _running(user, 0):
                done.setdefault(name, round(loop.time() - started, 1))
                await user.ask("DELETE", f"{JOBS}/{name}")
            await asyncio.sleep(0.2)
        await until(lambda: _nobody(user), what="all are gone", seconds=_MOST_SECONDS)
    await quiet(log)
    large = [seconds for name, seconds in done.items() if sizes[name] > gpus // 2]
    return {
        "racers": RACERS,
        "started": len(done),
        "overlaps": sorted(overlaps),
        "last_started_seconds": max(done.values(), default=None),
        "last_large_started_seconds": max(large, default=None),
        "load_average": [load, load_average()],
    }


async def most_promised(user: Client) -> list[str]:
    """Return the machines of which plans promise more GPUs than there are.

    Plans are read first: who holds GPUs later held them then. The other way round, those of a job
    that has just gone would count beside those of the one that took its place.
    """
    nodes = (await user.ask("GET", "/api/v1/nodes"))["items"]
    has = {
        each["metadata"]["name"]: int(each["status"]["allocatable"]["nvidia.com/gpu"])
        for each in nodes
    }
    plans = (await user.ask("GET", _PATHS["hetrlplans"]))["items"]
    holders = await _holders(user)
    promised: Counter[str] = Counter()
    for plan in plans:
        owners = {each["uid"] for each in plan["metadata"].get("ownerReferences", ())}
        # A plan outlives its job by moments, and past ones are kept: nobody holds to these.
        if owners & holders and PLANNED_FOR in plan["metadata"].get("annotations", {}):
            promised += _of(plan)
    return [
        f"{name}: {taken} of {has.get(name, 0)} GPUs"
        for name, taken in promised.items()
        if taken > has.get(name, 0)
    ]


async def _holders(user: Client) -> set[str]:
    """Return the uids of jobs that hold GPUs: those that stay, or whose pods have not stopped."""
    pods = (await user.ask("GET", _PATHS["pods"]))["items"]
    there = {each["metadata"].get("labels", {}).get(JOB_UID) for each in pods}
    return {
        each["metadata"]["uid"]
        for each in (await user.ask("GET", JOBS))["items"]
        if "deletionTimestamp" not in each["metadata"] or each["metadata"]["uid"] in there
    }


def _of(body: dict[str, Any]) -> Counter[str]:
    named = {**body, "metadata": {"name": body["metadata"]["name"]}}
    return gpus_by_machine(to_plan(parse(HetRLPlan, named).spec))


async def _running(user: Client, least: int, *, but: set[str] | None = None) -> set[str]:
    jobs = (await user.ask("GET", JOBS))["items"]
    names = {
        each["metadata"]["name"]
        for each in jobs
        if (each.get("status") or {}).get("phase") == "Running"
        and "deletionTimestamp" not in each["metadata"]
    } - (but or set())
    return names if len(names) >= least else set()


async def _said(user: Client, name: str) -> str:
    status = (await user.ask("GET", f"{JOBS}/{name}")).get("status") or {}
    planned = [each for each in status.get("conditions", ()) if each["type"] == "Planned"]
    return next((each["message"] for each in planned if each["reason"] == "FleetOccupied"), "")


async def _nobody(user: Client) -> bool:
    return await user.count("pods") == 0
