"""Fifty jobs from submission to pods that run, beside the same pods made in other ways.

A client applies the StatefulSets that the jobs had; JobSet makes Jobs of their pods. All on one
cluster, one after the other, several times in turn: what the scheduler, the controllers and kwok
need is in each. The others' pods wear labels of their own, so that no idle operator looks at them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from bench.proof.load.growth import JOBS, quiet, removed
from e2e.cluster.jobset import PATH as JOBSETS
from e2e.cluster.jobset import jobset_on
from e2e.faults.api import PATHS
from e2e.faults.life import a_job
from e2e.load.client import Client, all_of, client, until
from e2e.load.process import load_average
from e2e.load.stage import NAMESPACE, Stage
from hetrl_operator.model.labels import MANAGED_BY

NUM_JOBS = 50
TRAINERS, ROLLOUTS = 2, 4
PODS_PER_JOB = 1 + TRAINERS + ROLLOUTS
_MOST_SECONDS = 900.0
_SETS, _PODS = (PATHS[each].format(NAMESPACE) for each in ("statefulsets", "pods"))
_JOBSETS = JOBSETS.format(NAMESPACE)
_WITH_ALL = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
_OF_THE_SERVER = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "ownerReferences",
    "annotations",
)


def gang(number: int) -> dict[str, Any]:
    """Return a job of two trainer and four rollout pods."""
    job = a_job(f"gang-{number}", {"name": "l4", "gpuProduct": "L4"})
    job["spec"]["resources"]["maxGPUs"] = TRAINERS + ROLLOUTS
    job["spec"]["rollout"] = {"replicas": ROLLOUTS}
    return job


async def first_set(stage: Stage) -> dict[str, Any]:
    """Apply one job on an idle operator; return the seconds to its first StatefulSet."""
    log, load = stage.audit, load_average()
    async with client(stage.admin) as user:
        await user.ask("POST", JOBS, gang(0))
        await until(lambda: _pods_run(user, PODS_PER_JOB), what="it runs", seconds=_MOST_SECONDS)
    await quiet(log)
    entries = list(log.entries())
    submitted = next(each for each in entries if each.resource == "hetrljobs")
    sets = [each for each in entries if each.resource == "statefulsets" and each.code == 201]
    await removed(stage)
    seconds = (min(each.answered_at for each in sets) - submitted.at).total_seconds()
    return {"seconds": round(seconds, 3), "load_average": [load, load_average()]}


def beside_others(stage: Stage, folder: Path, *, rounds: int) -> dict[str, Any]:
    """Start the jobs, then what they consist of, in turn; JobSet's log is in the folder."""
    with jobset_on(stage.cluster, folder):
        return asyncio.run(_in_turn(stage, rounds))


async def _in_turn(stage: Stage, rounds: int) -> dict[str, Any]:
    found: dict[str, list[float]] = {"operator": [], "client": [], "jobset": []}
    loads = [load_average()]
    for _ in range(rounds):
        seconds, ours = await _by_the_operator(stage)
        sets = [_foreign(each) for each in ours]
        found["operator"].append(seconds)
        found["client"].append(await _by_a_client(stage, sets))
        found["jobset"].append(await _by_jobset(stage, sets))
        loads.append(load_average())
    return {"num_jobs": NUM_JOBS, "pods": NUM_JOBS * PODS_PER_JOB, **found, "load_average": loads}


async def _by_the_operator(stage: Stage) -> tuple[float, list[dict[str, Any]]]:
    loop = asyncio.get_running_loop()
    async with client(stage.admin) as user:
        started = loop.time()
        await all_of(user.ask("POST", JOBS, gang(number)) for number in range(NUM_JOBS))
        seconds = await _until_all_run(user, started)
        sets = (await user.ask("GET", _SETS))["items"]
    await removed(stage)
    return seconds, sets


async def _by_a_client(stage: Stage, sets: Sequence[dict[str, Any]]) -> float:
    loop = asyncio.get_running_loop()
    bare = [_bare(each) for each in sets]
    async with client(stage.admin) as user:
        started = loop.time()
        await all_of(user.apply(f"{_SETS}/{each['metadata']['name']}", each) for each in bare)
        seconds = await _until_all_run(user, started)
        await all_of(user.ask("DELETE", f"{_SETS}/{each['metadata']['name']}") for each in bare)
        await until(lambda: _none(user), what="its pods are gone", seconds=_MOST_SECONDS)
    return seconds


async def _by_jobset(stage: Stage, sets: Sequence[dict[str, Any]]) -> float:
    loop = asyncio.get_running_loop()
    by_job = sorted(sets, key=_job)
    bodies = [_jobset(job, tuple(of_it)) for job, of_it in groupby(by_job, key=_job)]
    async with client(stage.admin) as user:
        started = loop.time()
        await all_of(user.ask("POST", _JOBSETS, each) for each in bodies)
        seconds = await _until_all_run(user, started)
        await all_of(
            user.ask("DELETE", f"{_JOBSETS}/{each['metadata']['name']}", _WITH_ALL)
            for each in bodies
        )
        await until(lambda: _none(user), what="its pods are gone", seconds=_MOST_SECONDS)
    return seconds


def _foreign(value: Any) -> Any:
    """Return an object of ours with no label that we watch or read."""
    if isinstance(value, dict):
        return {
            key.replace("hetrl.dev/", "bench.example/"): _foreign(each)
            for key, each in value.items()
            if key != MANAGED_BY
        }
    return [_foreign(each) for each in value] if isinstance(value, list) else value


def _job(body: dict[str, Any]) -> str:
    return str(body["metadata"]["labels"]["bench.example/job-name"])


def _jobset(job: str, sets: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the same pods as a JobSet: a Job for each StatefulSet."""
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": job},
        "spec": {"replicatedJobs": [_replicated(each) for each in sets]},
    }


def _replicated(body: dict[str, Any]) -> dict[str, Any]:
    pods, template = body["spec"]["replicas"], body["spec"]["template"]
    left_out = {"schedulingGates", "subdomain", "restartPolicy"}
    spec = {k: v for k, v in template["spec"].items() if k not in left_out}
    pod = {"metadata": {"labels": template["metadata"]["labels"]}, "spec": spec}
    pod["spec"]["restartPolicy"] = "Never"
    return {
        "name": body["metadata"]["labels"]["bench.example/pod-set"],
        "replicas": 1,
        "template": {
            "spec": {
                "parallelism": pods,
                "completions": pods,
                "backoffLimit": 0,
                "template": pod,
            }
        },
    }


def _bare(body: dict[str, Any]) -> dict[str, Any]:
    """Return a StatefulSet as a client would write it: nobody would lift its gates."""
    metadata = {k: v for k, v in body["metadata"].items() if k not in _OF_THE_SERVER}
    template = dict(body["spec"]["template"])
    template["spec"] = {k: v for k, v in template["spec"].items() if k != "schedulingGates"}
    spec = {**body["spec"], "template": template}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}


async def _until_all_run(user: Client, started: float) -> float:
    await until(
        lambda: _pods_run(user, NUM_JOBS * PODS_PER_JOB),
        what="all pods run",
        seconds=_MOST_SECONDS,
        every=0.2,
    )
    return round(asyncio.get_running_loop().time() - started, 1)


async def _pods_run(user: Client, count: int) -> bool:
    selected = f"{_PODS}?fieldSelector=status.phase%3DRunning"
    names = await user.ask(
        "GET", selected, accept="application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    )
    return len(names["items"] or ()) >= count


async def _none(user: Client) -> bool:
    return await user.count("pods") == 0
