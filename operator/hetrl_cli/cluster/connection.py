"""A connection to a cluster: HetRLJobs, their pods and events, and changes of jobs.

A refusal by the API server becomes a one-line error that names the request. Requests are plain JSON
over the official client's connections and credentials: loading its generated models would take
longer than most commands.
"""

import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

import click
from kubernetes.client.api_client import ApiClient
from kubernetes.client.configuration import Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.config import (
    list_kube_config_contexts,
    load_incluster_config,
    new_client_from_config,
)
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError

from hetrl_operator.model.labels import API_VERSION, JOB_NAME, ROLE

FIELD_MANAGER = "hetrl-cli"
REQUEST_SECONDS = 30.0
_POD_SECONDS = 5.0
DEFAULT_NAMESPACE = "default"
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"

Object = Mapping[str, Any]
"""A Kubernetes object, as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A refusal by the API server."""

    status: int
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """An API server, and the namespace of the command."""

    api: ApiClient
    namespace: str

    def job(self, name: str) -> Object:
        """Return one job."""
        return self._request("GET", self._jobs(name))

    def has_job(self, name: str) -> bool:
        """Tell whether a job is there."""
        found = self.try_request(self._jobs(name))
        return not isinstance(found, Refused) or found.status != HTTPStatus.NOT_FOUND

    def jobs(self, *, everywhere: bool = False) -> list[Object]:
        """Return the jobs of the namespace, or of all."""
        path = f"/apis/{API_VERSION}/hetrljobs" if everywhere else self._jobs()
        return list(self._request("GET", path)["items"])

    def apply(self, manifest: Object) -> Object:
        """Create or update a job by server-side apply; fields of other managers stay."""
        path = self._jobs(manifest["metadata"]["name"])
        return self._request("PATCH", path, body=manifest, content_type=APPLY)

    def change(self, name: str, spec: Object) -> Object:
        """Change fields of a job's spec."""
        return self._request("PATCH", self._jobs(name), body={"spec": spec}, content_type=MERGE)

    def delete(self, name: str) -> bool:
        """Start the deletion of a job; return whether it existed."""
        found = self.try_request(self._jobs(name), method="DELETE")
        if isinstance(found, Refused) and found.status != HTTPStatus.NOT_FOUND:
            raise click.ClickException(found.said)
        return not isinstance(found, Refused)

    def scale(self, name: str, replicas: int) -> None:
        """Ask for so many rollout replicas, as an autoscaler does."""
        wanted = {"spec": {"replicas": replicas}}
        self._request("PATCH", f"{self._jobs(name)}/scale", body=wanted, content_type=MERGE)

    def plan(self, name: str) -> Object:
        """Return one HetRLPlan."""
        path = f"/apis/{API_VERSION}/namespaces/{self.namespace}/hetrlplans/{name}"
        return self._request("GET", path)

    def plans(self, job: str, *, followed: str | None) -> list[Object]:
        """Return the HetRLPlans that were made for a job, and the one that it follows.

        The newest first.
        """
        path = f"/apis/{API_VERSION}/namespaces/{self.namespace}/hetrlplans"
        query = {"labelSelector": f"{JOB_NAME}={job}"}
        found = list(self._request("GET", path, query=query)["items"])
        if followed and followed not in {each["metadata"]["name"] for each in found}:
            given = self.try_request(f"{path}/{followed}")
            found += [] if isinstance(given, Refused) else [given]
        return sorted(
            found, key=lambda plan: str(plan["metadata"]["creationTimestamp"]), reverse=True
        )

    def events(self, job: Object) -> list[Object]:
        """Return the events about a job, the oldest first."""
        query = {"fieldSelector": f"involvedObject.uid={job['metadata']['uid']}"}
        found = self._request("GET", f"/api/v1/namespaces/{self.namespace}/events", query=query)
        return sorted(found["items"], key=event_time)

    def pods(self, name: str, *, role: str | None = None) -> list[Object]:
        """Return a job's pods by name, of one role or of all."""
        selector = f"{JOB_NAME}={name}" + (f",{ROLE}={role}" if role else "")
        found = self._request("GET", self._pods(), query={"labelSelector": selector})
        return sorted(found["items"], key=lambda pod: str(pod["metadata"]["name"]))

    def log(self, pod: str, container: str, *, tail: int, previous: bool) -> list[str]:
        """Return the lines of a container's log; ``previous``: of the one before its restart."""
        query = {
            "container": container,
            "tailLines": str(tail),
            "previous": str(previous).lower(),
        }
        with _refusals_in_words():
            return _text(self._answer("GET", f"{self._pods()}/{pod}/log", query)).splitlines()

    def follow(
        self, pod: str, container: str, *, tail: int, until: threading.Event
    ) -> Iterator[str]:
        """Yield the lines of a container's log as they come, until it ends."""
        query = {"container": container, "tailLines": str(tail), "follow": "true"}
        with _refusals_in_words():
            # No timeout: a pod may be silent for any time.
            answer = self._answer("GET", f"{self._pods()}/{pod}/log", query, seconds=None)
            yield from _lines(answer.response, until)

    def through(self, pod: str, port: str, path: str) -> "str | Refused":
        """Return a pod's HTTP response through the API server's proxy; needs no port forwarding."""
        where = f"{self._pods()}/{pod}:{port}/proxy/{path}"
        try:
            return _text(self._answer("GET", where, {}, seconds=_POD_SECONDS))
        except ApiException as error:
            return Refused(status=error.status, said=_refusal(error))
        except (HTTPError, OSError) as error:
            return Refused(status=HTTPStatus.SERVICE_UNAVAILABLE, said=str(error))

    def try_request(
        self, path: str, *, method: str = "GET", body: Object | None = None
    ) -> "Object | Refused":
        """Send a request; return the object, or the refusal.

        Raises:
            ClickException: the API server does not answer.
        """
        with _refusals_in_words():
            try:
                answer = self._answer("POST" if body else method, path, {}, body=body)
            except ApiException as error:
                return Refused(status=error.status, said=_refusal(error))
            found: Object = json.loads(_text(answer))
            return found

    def server_time(self) -> datetime:
        """Return the API server's clock, to the second."""
        with _refusals_in_words():
            answer = self._answer("GET", "/version", {})
            return parsedate_to_datetime(answer.headers["Date"])

    def _jobs(self, name: str = "") -> str:
        path = f"/apis/{API_VERSION}/namespaces/{self.namespace}/hetrljobs"
        return f"{path}/{name}" if name else path

    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        content_type: str | None = None,
    ) -> Object:
        asked = dict(query or {})
        if body is not None:
            asked |= {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
        with _refusals_in_words():
            answer = self._answer(method, path, asked, body=body, content_type=content_type)
            found: Object = json.loads(_text(answer))
            return found

    def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        *,
        body: Object | None = None,
        content_type: str | None = None,
        seconds: float | None = REQUEST_SECONDS,
    ) -> Any:
        headers = {"Accept": "application/json, */*"}
        if content_type:
            headers["Content-Type"] = content_type
        serialized = self.api.param_serialize(
            method,
            path,
            query_params=list(query.items()),
            header_params=headers,
            body=body,
            auth_settings=["BearerToken"],
        )
        answer = self.api.call_api(*serialized, _request_timeout=seconds)
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise ApiException(status=answer.status, reason=answer.reason, body=_text(answer))
        return answer


def connect(*, context: str | None, namespace: str | None) -> Connection:
    """Connect as the kubeconfig says, or in a pod without one as its service account.

    The namespace of either is taken where none is given.

    Raises:
        ClickException: there is no kubeconfig, or it cannot be used.
    """
    try:
        in_pod = SERVICE_ACCOUNT.exists() and not os.environ.get("KUBECONFIG") and not context
        api, own = _as_the_pod() if in_pod else _as_the_kubeconfig_says(context)
    except (ConfigException, OSError) as error:
        raise click.ClickException(f"no cluster: {error}") from error
    # A server that is busy, or has just learned a kind, answers 429 for a moment.
    api.configuration.client_go_retries = True
    return Connection(api=api, namespace=namespace or own or DEFAULT_NAMESPACE)


def _as_the_pod() -> tuple[ApiClient, str]:
    configuration = Configuration()
    load_incluster_config(client_configuration=configuration)
    return ApiClient(configuration), (SERVICE_ACCOUNT / "namespace").read_text().strip()


def _as_the_kubeconfig_says(context: str | None) -> tuple[ApiClient, str]:
    api = new_client_from_config(context=context)
    contexts, current = list_kube_config_contexts()
    chosen = next((each for each in contexts if each["name"] == context), current)
    return api, str(chosen["context"].get("namespace") or "")


def event_time(event: Object) -> str:
    """Return when an event happened last, as RFC 3339 writes it."""
    series = event.get("series") or {}
    times = (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event["metadata"].get("creationTimestamp"),
    )
    return next((str(each) for each in times if each), "")


@contextmanager
def _refusals_in_words() -> Iterator[None]:
    """Turn errors of a request into one line for the user."""
    try:
        yield
    except ApiException as error:
        raise click.ClickException(_refusal(error)) from error
    except (HTTPError, OSError) as error:
        raise click.ClickException(f"the API server does not answer: {error}") from error


def _refusal(error: ApiException) -> str:
    """Return the API server's message, with an explanation where it is unclear."""
    try:
        said = str(json.loads(error.body or "").get("message") or error.reason)
    except (ValueError, AttributeError):
        said = str(error.body or error.reason)
    is_unknown = error.status == HTTPStatus.NOT_FOUND and (
        "could not find the requested resource" in said or "page not found" in said
    )
    if is_unknown:
        return "the cluster knows no HetRLJobs: HetRL's chart is not installed there"
    return f"{said.strip()} (HTTP {error.status})"


def _text(answer: Any) -> str:
    return bytes(answer.read()).decode(errors="replace")


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
