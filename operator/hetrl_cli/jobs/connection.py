"""One connection to a cluster: its HetRLJobs, their pods and events, and what may be changed.

Whatever the API server refuses ends as one line that names what was asked for. What the objects
mean is for the commands.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import click
from kubernetes import client, config
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError

from hetrl_operator.labels import GROUP, JOB_NAME, ROLE

VERSION = "v1alpha1"
JOBS = "hetrljobs"
FIELD_MANAGER = "hetrl-cli"
REQUEST_SECONDS = 30.0
DEFAULT_NAMESPACE = "default"

Object = Mapping[str, Any]
"""A Kubernetes object, as JSON."""


@contextmanager
def _refusals_in_words() -> Iterator[None]:
    """Turn what a request raises into one line for people."""
    try:
        yield
    except client.ApiException as error:
        raise click.ClickException(_refusal(error)) from error
    except (HTTPError, OSError) as error:
        raise click.ClickException(f"the API server does not answer: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """An API server, and the namespace that commands are about."""

    api: client.ApiClient
    namespace: str

    @_refusals_in_words()
    def job(self, name: str) -> Object:
        """Return one job."""
        found: Object = self._custom.get_namespaced_custom_object(
            GROUP, VERSION, self.namespace, JOBS, name, _request_timeout=REQUEST_SECONDS
        )
        return found

    @_refusals_in_words()
    def jobs(self, *, everywhere: bool = False) -> list[Object]:
        """Return the jobs of the namespace, or of all."""
        if everywhere:
            listed = self._custom.list_cluster_custom_object(
                GROUP, VERSION, JOBS, _request_timeout=REQUEST_SECONDS
            )
        else:
            listed = self._custom.list_namespaced_custom_object(
                GROUP, VERSION, self.namespace, JOBS, _request_timeout=REQUEST_SECONDS
            )
        return list(listed["items"])

    @_refusals_in_words()
    def apply(self, manifest: Object) -> Object:
        """Create a job, or make one what its file says; fields of other managers stay."""
        name = manifest["metadata"]["name"]
        self._custom.patch_namespaced_custom_object(
            GROUP, VERSION, self.namespace, JOBS, name, manifest,
            field_manager=FIELD_MANAGER, field_validation="Strict",
            _content_type="application/apply-patch+yaml", _request_timeout=REQUEST_SECONDS,
        )  # fmt: skip
        # The client gives nothing back of an object that applying created.
        return self.job(name)

    @_refusals_in_words()
    def change(self, name: str, spec: Object) -> Object:
        """Change fields of a job's spec."""
        found: Object = self._custom.patch_namespaced_custom_object(
            GROUP, VERSION, self.namespace, JOBS, name, {"spec": spec},
            field_manager=FIELD_MANAGER, field_validation="Strict",
            _content_type="application/merge-patch+json", _request_timeout=REQUEST_SECONDS,
        )  # fmt: skip
        return found

    @_refusals_in_words()
    def scale(self, name: str, replicas: int) -> None:
        """Ask for so many rollout replicas, as an autoscaler does."""
        self._custom.patch_namespaced_custom_object_scale(
            GROUP, VERSION, self.namespace, JOBS, name, {"spec": {"replicas": replicas}},
            field_manager=FIELD_MANAGER,
            _content_type="application/merge-patch+json", _request_timeout=REQUEST_SECONDS,
        )  # fmt: skip

    @_refusals_in_words()
    def events(self, job: Object) -> list[Object]:
        """Return the events about a job, the oldest first."""
        listed = self._core.list_namespaced_event(
            self.namespace, field_selector=f"involvedObject.uid={job['metadata']['uid']}",
            _request_timeout=REQUEST_SECONDS,
        )  # fmt: skip
        found: list[Object] = self.api.sanitize_for_serialization(listed.items)
        return sorted(found, key=event_time)

    @_refusals_in_words()
    def pods(self, name: str, *, role: str | None = None) -> list[Object]:
        """Return a job's pods by name, of one role or of all."""
        selector = f"{JOB_NAME}={name}" + (f",{ROLE}={role}" if role else "")
        listed = self._core.list_namespaced_pod(
            self.namespace, label_selector=selector, _request_timeout=REQUEST_SECONDS
        )
        found: list[Object] = self.api.sanitize_for_serialization(listed.items)
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    @_refusals_in_words()
    def log(self, pod: str, *, tail: int | None, previous: bool) -> list[str]:
        """Return the lines of a pod's log; ``previous``: of its container before the last."""
        text = self._core.read_namespaced_pod_log(
            pod, self.namespace, previous=previous, _request_timeout=REQUEST_SECONDS,
            **({"tail_lines": tail} if tail is not None else {}),
        )  # fmt: skip
        return str(text).splitlines()

    def follow(self, pod: str, *, tail: int | None, until: threading.Event) -> Iterator[str]:
        """Yield the lines of a pod's log as they come, until its container ends."""
        with _refusals_in_words():
            stream = self._core.read_namespaced_pod_log(
                pod, self.namespace, follow=True, _preload_content=False,
                **({"tail_lines": tail} if tail is not None else {}),
            )  # fmt: skip
            yield from _lines(stream, until)

    @property
    def _custom(self) -> client.CustomObjectsApi:
        return client.CustomObjectsApi(self.api)

    @property
    def _core(self) -> client.CoreV1Api:
        return client.CoreV1Api(self.api)


def connect(*, context: str | None, namespace: str | None) -> Connection:
    """Connect as the kubeconfig says; its context's namespace is taken where none is given.

    Raises:
        ClickException: there is no kubeconfig, or it cannot be used.
    """
    try:
        api = config.new_client_from_config(context=context)
        contexts, current = config.list_kube_config_contexts()
    except (ConfigException, OSError) as error:
        raise click.ClickException(f"no cluster: {error}") from error
    chosen = next((each for each in contexts if each["name"] == context), current)
    configured = chosen["context"].get("namespace")
    return Connection(api=api, namespace=namespace or configured or DEFAULT_NAMESPACE)


def event_time(event: Object) -> str:
    """Return when an event happened last, as RFC 3339 writes it."""
    series = event.get("series") or {}
    times = (
        series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"),
        event["metadata"].get("creationTimestamp"),
    )  # fmt: skip
    return next((str(each) for each in times if each), "")


def _lines(stream: Any, until: threading.Event) -> Iterator[str]:
    rest = b""
    for part in stream.stream():
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace")
        if until.is_set():
            return
    if rest:
        yield rest.decode(errors="replace")


def _refusal(error: client.ApiException) -> str:
    """Say what the API server said, and what it means where that is not plain."""
    try:
        body = json.loads(error.body or "")
        said = str(body.get("message") or error.reason)
    except (ValueError, AttributeError):
        said = str(error.body or error.reason)
    if error.status == HTTPStatus.NOT_FOUND and "the server could not find" in said:
        return "the cluster knows no HetRLJobs: HetRL's chart is not installed there"
    return f"{said.strip()} (HTTP {error.status})"
