"""Scraping of a run's processes into the run's folder.

``targets.json`` lists their metrics ports for Prometheus' ``file_sd_configs``, with the labels
that a PodMonitor would add; ``metrics.jsonl`` records the samples. This process serves the job's
own series, which in a cluster the operator serves.
"""

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass

import aiohttp
from prometheus_client import CollectorRegistry, start_http_server

from hetrl_cli.run.metrics.recording import Identity, Recorder, series_of
from hetrl_cli.run.setup.contracts import Pod
from hetrl_cli.run.setup.folder import RunFolder
from hetrl_cli.run.setup.ports import LOOPBACK
from hetrl_core.launch import JobIdentity
from hetrl_core.plan.plan import Plan
from hetrl_core.plan.pod_sets import pod_sets
from hetrl_core.task import programs_of
from hetrl_operator.http.job_metrics import JobMetrics, JobShown, PodsShown

_LEAST_SECONDS = 1.0
_SAMPLES_PER_AGE = 1000
"""The interval between samples is the run's age over this: a file of days stays small."""

_ANSWER_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A metrics port of a process, and the labels that its series get."""

    address: str
    labels: Mapping[str, str]

    @property
    def port(self) -> int:
        """The port of its address."""
        return int(self.address.rpartition(":")[2])


def targets(pods: tuple[Pod, ...], identity: JobIdentity, *, own_port: int) -> tuple[Target, ...]:
    """Return the targets of a run: its processes, and the job's own series."""
    job = {"namespace": identity.namespace, "hetrljob": identity.name}
    return (
        *(
            Target(address=f"{LOOPBACK}:{port}", labels={**job, **labels})
            for pod in pods
            for port, labels in _of_pod(pod)
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


class JobSeries:
    """The job's own series, as the operator would serve them: its plan, pods and phase."""

    def __init__(self, identity: JobIdentity, plan: Plan) -> None:
        self.registry = CollectorRegistry()
        self._metrics = JobMetrics(self.registry)
        self._job = (identity.namespace, identity.name)
        self._plan = plan
        self._pods = pod_sets(plan)
        self.phase = "Running"
        self.trouble = ""
        """Why not all was recorded; empty where it was."""

    def show(self, answering: Counter[str]) -> None:
        """Show how many processes of each role answer."""
        pods = tuple(
            PodsShown(role=role, gpu_kind="", wanted=wanted, ready=min(wanted, answering[role]))
            for role, wanted in self._wanted().items()
        )
        shown = JobShown(
            phase=self.phase,
            plan=self._plan,
            is_paid=self.phase == "Running",
            pods=pods,
            conditions={"Running": all(each.ready == each.wanted for each in pods)},
        )
        self._metrics.show(self._job, shown)

    def _wanted(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for each in self._pods:
            found.update({program.value: each.num_pods for program in each.programs})
        return found


@contextlib.asynccontextmanager
async def recorded(
    folder: RunFolder, identity: JobIdentity, plan: Plan
) -> AsyncIterator[JobSeries]:
    """Record metrics while the context is open, and at its end the phase."""
    found = read_targets(folder)
    job = JobSeries(identity, plan)
    recorder = Recorder(folder.metrics_file)
    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    with _served(job.registry, port=found[-1].port):
        async with aiohttp.ClientSession(timeout=timeout) as session:
            task = asyncio.create_task(_record(session, recorder, found, job))
            try:
                yield job
            finally:
                task.cancel()
                (ended,) = await asyncio.gather(task, return_exceptions=True)
                job.show(Counter())
                last = await _scrape(session, found[-1])
                try:
                    if isinstance(ended, OSError):
                        raise ended
                    recorder.add(time.time(), last)
                except OSError as error:
                    # A full disk ends the record; the run's own end counts.
                    job.trouble = str(error)


@contextlib.contextmanager
def _served(registry: CollectorRegistry, *, port: int) -> Iterator[None]:
    server, thread = start_http_server(port, addr=LOOPBACK, registry=registry)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def _record(
    session: aiohttp.ClientSession, recorder: Recorder, found: tuple[Target, ...], job: JobSeries
) -> None:
    begun = time.monotonic()
    while True:
        at = time.time()
        seen = await asyncio.gather(*(_scrape(session, each) for each in found))
        recorder.add(at, {name: value for each in seen for name, value in each.items()})
        answering = zip(found, seen, strict=True)
        job.show(Counter(each.labels.get("role", "") for each, series in answering if series))
        age = time.monotonic() - begun
        await asyncio.sleep(max(_LEAST_SECONDS, age / _SAMPLES_PER_AGE))


async def _scrape(session: aiohttp.ClientSession, target: Target) -> dict[Identity, float]:
    """Return a target's series; none if it does not answer, such as before its start."""
    try:
        async with session.get(f"http://{target.address}/metrics") as reply:
            return series_of(await reply.text(), target.labels)
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
        return {}


def _of_pod(pod: Pod) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the ports of a pod's programs, and what their series are labelled with."""
    launch = pod.launch
    ranks = [rank.task for rank in launch.ranks if rank.ordinal == pod.ordinal]
    beside = (each for each in programs_of(ranks) if each is not launch.role)
    shown = zip(
        (launch.role, *beside), (launch.metrics_port, *launch.more_metrics_ports), strict=True
    )
    pool = {"pool": pod.gpu_kind} if pod.gpu_kind else {}
    for program, port in shown:
        yield port, {"pod": pod.name, "role": program.value, **pool}
