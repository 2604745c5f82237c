"""What a run's processes measure, looked at again and again and kept in the run's folder.

``targets.json`` lists their metrics ports as Prometheus' ``file_sd_configs`` reads them, with the
labels that a PodMonitor would give; ``metrics.jsonl`` is what we saw there ourselves. The job's
own series, which the operator shows in a cluster, come from a port of ours.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass

import aiohttp
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.parser import text_string_to_metric_families

from hetrl_cli.run.contracts import Pod
from hetrl_cli.run.folder import RunFolder
from hetrl_cli.run.ports import LOOPBACK
from hetrl_cli.run.recording import Identity, Recorder, identity
from hetrl_core.launch import JobIdentity
from hetrl_core.plan import Plan
from hetrl_operator.job_metrics import JobMetrics, JobShown

_LEAST_SECONDS = 1.0
_LOOKS_PER_AGE = 1000
"""Looks come as often as makes a thousand of the time so far: a file of days stays small."""

_ANSWER_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A port where a process shows its series, and the labels that they get."""

    address: str
    labels: Mapping[str, str]


def targets(pods: tuple[Pod, ...], identity: JobIdentity, *, own_port: int) -> tuple[Target, ...]:
    """Return where the series of a run are: those of its processes, and of the job as a whole."""
    job = {"namespace": identity.namespace, "hetrljob": identity.name}
    return (
        *(
            Target(
                address=f"{LOOPBACK}:{pod.launch.metrics_port}",
                labels={**job, **_of_pod(pod)},
            )
            for pod in pods
        ),
        Target(address=f"{LOOPBACK}:{own_port}", labels=job),
    )


def write_targets(folder: RunFolder, found: tuple[Target, ...]) -> None:
    """Write the list for Prometheus."""
    listed = [{"targets": [each.address], "labels": dict(each.labels)} for each in found]
    folder.targets_file.write_text(json.dumps(listed, indent=1) + "\n")


def read_targets(folder: RunFolder) -> tuple[Target, ...]:
    """Read the list."""
    return tuple(
        Target(address=address, labels=each["labels"])
        for each in json.loads(folder.targets_file.read_text())
        for address in each["targets"]
    )


@contextlib.asynccontextmanager
async def recorded(folder: RunFolder, identity: JobIdentity, plan: Plan) -> AsyncIterator[None]:
    """Keep what is measured for as long as the context lives."""
    found = read_targets(folder)
    with _shown(identity, plan, port=int(found[-1].address.rpartition(":")[2])):
        task = asyncio.create_task(_record(folder, found))
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


@contextlib.contextmanager
def _shown(identity: JobIdentity, plan: Plan, *, port: int) -> Iterator[None]:
    registry = CollectorRegistry()
    JobMetrics(registry).show(
        (identity.namespace, identity.name), JobShown(phase="Running", plan=plan, is_paid=True)
    )
    server, thread = start_http_server(port, addr=LOOPBACK, registry=registry)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def _record(folder: RunFolder, found: tuple[Target, ...]) -> None:
    recorder = Recorder(folder.metrics_file)
    begun = time.monotonic()
    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        while True:
            at = time.time()
            seen = await asyncio.gather(*(_look(session, each) for each in found))
            recorder.add(at, {name: value for each in seen for name, value in each.items()})
            age = time.monotonic() - begun
            await asyncio.sleep(max(_LEAST_SECONDS, age / _LOOKS_PER_AGE))


async def _look(session: aiohttp.ClientSession, target: Target) -> dict[Identity, float]:
    """Return a target's series; none where it does not answer, as before its start."""
    try:
        async with session.get(f"http://{target.address}/metrics") as reply:
            text = await reply.text()
    except (aiohttp.ClientError, TimeoutError, OSError):
        return {}
    return {
        identity(sample.name, {**target.labels, **sample.labels}): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def _of_pod(pod: Pod) -> dict[str, str]:
    return {
        "pod": pod.name,
        "role": pod.launch.role.value,
        **({"pool": pod.gpu_kind} if pod.gpu_kind else {}),
    }
