"""A recorder of a cluster's job: it samples metrics regularly, as `hetrl run` does on one machine.

It serves clusters without Prometheus: it reads metrics of the job's pods through the API server,
which takes `get` on pods/proxy. `cluster_job_series` makes the job's own series; `runs` reads the
record.
"""

import asyncio
import contextlib
import fcntl
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import click

from hetrl_cli.cluster.connection import Connection, Object, Refused
from hetrl_cli.dashboard.sources.cluster_job_series import ClusterJobSeries
from hetrl_cli.jobs.job_view import JobView
from hetrl_cli.run.metrics.recording import Identity, Recorder, series_of
from hetrl_cli.run.setup.folder import RunFolder, record_of
from hetrl_cli.say import say
from hetrl_core.launch import JobIdentity
from hetrl_operator.model.labels import POOL, ROLE
from hetrl_operator.render.deployment import MORE_METRICS

_PORT = "metrics"
_LEAST_SECONDS = 1.0
_SECONDS_PER_POD = 0.02
"""Limits the load that a job of hundreds of pods puts on the API server."""

_SAMPLES_PER_AGE = 1000
"""The same as for local runs, so that a record of days stays small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    series: Mapping[Identity, float]
    num_pods: int = 0
    has_ended: bool = False


class ClusterJobRecorder:
    """One job and its record; the constructor makes a first request to show refusals early."""

    def __init__(self, connection: Connection, name: str, root: Path) -> None:
        """Find the job and the folder that it is recorded in.

        Raises:
            ClickException: there is no such job, or access to its pods is forbidden.
        """
        found = connection.job(name)
        metadata = found["metadata"]
        self.folder = record_of(
            root,
            JobIdentity(namespace=metadata["namespace"], name=name, uid=metadata["uid"]),
        )
        self._connection = connection
        self._name = name
        self._uid = metadata["uid"]
        self._labels = {"namespace": metadata["namespace"], "hetrljob": name}
        self._whole = ClusterJobSeries(connection)
        self._refuse_if_forbidden()

    async def record(self) -> None:
        """Sample until the job ends or is deleted; do nothing if another process records it."""
        with _claimed(self.folder) as is_ours:
            if not is_ours:
                return
            try:
                await self._record(Recorder(self.folder.metrics_file))
            except OSError as error:
                # The record up to here can still be shown.
                say(f"{self._name} is recorded no further: {error}", err=True)

    async def _record(self, recorder: Recorder) -> None:
        begun = time.monotonic()
        while (sample := await self._sample()) is not None:
            recorder.add(time.time(), sample.series)
            if sample.has_ended:
                break
            age = time.monotonic() - begun
            await asyncio.sleep(
                max(_LEAST_SECONDS, sample.num_pods * _SECONDS_PER_POD, age / _SAMPLES_PER_AGE)
            )
        self.folder.end_file.write_text(json.dumps({"seconds": time.monotonic() - begun}))

    async def _sample(self) -> _Sample | None:
        """Return the present values; None once the job is deleted.

        If the API server does not answer, the next sample asks it again.
        """
        try:
            job = await asyncio.to_thread(self._connection.job, self._name)
            pods = await asyncio.to_thread(self._connection.pods, self._name)
            whole = await asyncio.to_thread(self._whole.series, job)
        except click.ClickException:
            is_there = await asyncio.to_thread(self._is_there)
            return _Sample(series={}) if is_there else None
        if job["metadata"]["uid"] != self._uid:
            return None
        seen = await asyncio.gather(*(asyncio.to_thread(self._of, pod) for pod in pods))
        return _Sample(
            series={name: value for each in (whole, *seen) for name, value in each.items()},
            num_pods=len(pods),
            has_ended=JobView(job).has_succeeded is not None,
        )

    def _is_there(self) -> bool:
        with contextlib.suppress(click.ClickException):
            return self._connection.has_job(self._name)
        return True

    def _of(self, pod: Object) -> dict[Identity, float]:
        """Return a pod's series; a program that does not answer, as before its start, has none."""
        metadata = pod["metadata"]
        labels = metadata.get("labels", {})
        found: dict[Identity, float] = {}
        for port, role in _metrics_ports(pod):
            text = self._connection.through(metadata["name"], port, "metrics")
            if isinstance(text, Refused):
                continue
            named = {"pod": metadata["name"], "role": role, "pool": labels.get(POOL)}
            given = {name: value for name, value in named.items() if value}
            with contextlib.suppress(ValueError):
                found |= series_of(text, {**self._labels, **given})
        return found

    def _refuse_if_forbidden(self) -> None:
        namespace = self._labels["namespace"]
        answer = self._connection.through("none", _PORT, "metrics")
        if isinstance(answer, Refused) and answer.status == HTTPStatus.FORBIDDEN:
            raise click.ClickException(
                f"{answer.said}: pods are read through the API server, which takes `get` on "
                f"pods/proxy in {namespace}; --prometheus takes no such right"
            )


def _metrics_ports(pod: Object) -> Iterator[tuple[str, str]]:
    """Yield the metrics ports of a pod's programs, and their roles."""
    own = pod["metadata"].get("labels", {}).get(ROLE, "")
    roles = {_PORT: own} | {name: role.value for role, (name, _) in MORE_METRICS.items()}
    for container in pod["spec"]["containers"]:
        for port in container.get("ports", ()):
            if port.get("name") in roles:
                yield str(port["containerPort"]), roles[port["name"]]


@contextlib.contextmanager
def _claimed(folder: RunFolder) -> Iterator[bool]:
    """Yield whether this process holds the lock of the record; hold it for the context."""
    with (folder.path / "recorder").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
