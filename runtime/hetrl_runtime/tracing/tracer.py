"""The tracer of a process, by its launch contract: none, or one that sends.

OpenTelemetry is imported here alone, and only where a job asks for traces: an image without its
packages runs every other job.
"""

import contextlib
import os
import socket
from collections.abc import Iterator
from importlib.metadata import version

from hetrl_core.launch import Launch
from hetrl_runtime.tracing.span import NO_TRACER, Tracer


class TracesUnavailableError(Exception):
    """Traces are asked for where nothing can send them; the message says what to install."""


@contextlib.contextmanager
def tracer_of(launch: Launch, *, process: str) -> Iterator[Tracer]:
    """Return a process's tracer; what it has not sent at the end is given some seconds.

    Raises:
        TracesUnavailableError: OpenTelemetry's packages are not installed.
    """
    tracer = _opened(launch, process)
    try:
        yield tracer
    finally:
        tracer.close()


def _opened(launch: Launch, process: str) -> Tracer:
    if launch.traces is None:
        return NO_TRACER
    try:
        from hetrl_runtime.tracing.recording import ExportingTracer  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("opentelemetry"):
            raise
        raise TracesUnavailableError(
            "spec.runtime.telemetry.traces needs OpenTelemetry's packages, and "
            f"{error.name} is not installed here: install hetrl[traces], or take the field away"
        ) from error
    return ExportingTracer(launch.traces, resource=resource(launch, process=process))


def resource(launch: Launch, *, process: str) -> dict[str, str]:
    """Return who a process is, in the names of OpenTelemetry's conventions."""
    host = socket.gethostname()
    found = {
        "service.name": f"hetrl-{launch.role}",
        "service.namespace": launch.job.namespace,
        "service.instance.id": process,
        "service.version": version("hetrl"),
        "host.name": host,
        "hetrl.job.name": launch.job.name,
        "hetrl.job.uid": launch.job.uid,
        "hetrl.pod_set": launch.pod_set,
    }
    # What the kubelet gives every container; a pod's hostname is its name.
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        found |= {"k8s.pod.name": host, "k8s.namespace.name": launch.job.namespace}
    return found
