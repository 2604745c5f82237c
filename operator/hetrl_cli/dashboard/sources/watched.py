"""A job of a cluster, looked at again and again and recorded as a run of this machine is.

For those who have no Prometheus: what the job's pods measure comes through the API server, which
takes no more than the right to reach pods by it. The series of the job as a whole are left to
`whole_job`, drawing to `runs`, which reads the record.
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
from hetrl_cli.dashboard.sources.whole_job import WholeJob
from hetrl_cli.jobs.standing import Standing
from hetrl_cli.run.metrics.exposition import series_of
from hetrl_cli.run.metrics.recording import Identity, Recorder
from hetrl_cli.run.setup.folder import RunFolder, record_of
from hetrl_core.launch import JobIdentity
from hetrl_operator.model.labels import POOL, ROLE
from hetrl_operator.render.deployment import MORE_METRICS

_PORT = "metrics"
_LEAST_SECONDS = 1.0
_SECONDS_PER_POD = 0.02
"""Looks of a job of hundreds of pods come seldom enough for an API server not to notice."""

_LOOKS_PER_AGE = 1000
"""As of local runs: a record of days stays small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looked:
    series: Mapping[Identity, float]
    num_pods: int = 0
    is_over: bool = False


class Watched:
    """One job and its record; asked once before anything is served, so that refusals are seen."""

    def __init__(self, connection: Connection, name: str, root: Path) -> None:
        """Find the job and the folder that it is recorded in.

        Raises:
            ClickException: there is no such job, or its pods may not be asked.
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
        self._whole = WholeJob(connection)
        self._refuse_if_forbidden()

    async def record(self) -> None:
        """Look until the job has ended or is gone; nothing where another process does."""
        with _claimed(self.folder) as is_ours:
            if not is_ours:
                return
            try:
                await self._record(Recorder(self.folder.metrics_file))
            except OSError as error:
                # What was seen so far can still be looked at.
                click.echo(f"{self._name} is recorded no further: {error}", err=True)

    async def _record(self, recorder: Recorder) -> None:
        begun = time.monotonic()
        while (looked := await self._look()) is not None:
            recorder.add(time.time(), looked.series)
            if looked.is_over:
                break
            age = time.monotonic() - begun
            await asyncio.sleep(
                max(_LEAST_SECONDS, looked.num_pods * _SECONDS_PER_POD, age / _LOOKS_PER_AGE)
            )
        self.folder.end_file.write_text(json.dumps({"seconds": time.monotonic() - begun}))

    async def _look(self) -> _Looked | None:
        """Return what is to be seen now; None once the job is gone.

        An API server that does not answer is asked again at the next look.
        """
        try:
            job = await asyncio.to_thread(self._connection.job, self._name)
            pods = await asyncio.to_thread(self._connection.pods, self._name)
            whole = await asyncio.to_thread(self._whole.series, job)
        except click.ClickException:
            is_there = await asyncio.to_thread(self._is_there)
            return _Looked(series={}) if is_there else None
        if job["metadata"]["uid"] != self._uid:
            return None
        seen = await asyncio.gather(*(asyncio.to_thread(self._of, pod) for pod in pods))
        return _Looked(
            series={name: value for each in (whole, *seen) for name, value in each.items()},
            num_pods=len(pods),
            is_over=Standing(job).has_succeeded is not None,
        )

    def _is_there(self) -> bool:
        with contextlib.suppress(click.ClickException):
            return self._connection.has_job(self._name)
        return True

    def _of(self, pod: Object) -> dict[Identity, float]:
        """Return a pod's series; none of a program that does not answer, as before its start."""
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
    """Yield the ports at which a pod's programs show their series, and their roles."""
    own = pod["metadata"].get("labels", {}).get(ROLE, "")
    roles = {_PORT: own} | {name: role.value for role, (name, _) in MORE_METRICS.items()}
    for container in pod["spec"]["containers"]:
        for port in container.get("ports", ()):
            if port.get("name") in roles:
                yield str(port["containerPort"]), roles[port["name"]]


@contextlib.contextmanager
def _claimed(folder: RunFolder) -> Iterator[bool]:
    """Tell whether we are the one that writes this record, and stay it for the context."""
    with (folder.path / "recorder").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
