"""One HTTP request to the API server, answered as a value. The official client's asyncio half.

The generated methods are left aside: they validate and copy every object, and raise for what
``apply`` expects. Authentication, TLS and connection pooling are the client's.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import aiohttp
from kubernetes.aio import client, config

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
REQUEST_SECONDS = 30.0

APPLY = "application/apply-patch+yaml"
STRATEGIC_MERGE = "application/strategic-merge-patch+json"
JSON = "application/json"


class RequestMetrics(Protocol):
    """What requests count."""

    def requested(self, *, method: str, code: int) -> None:
        """Count one request; code 0 is one without an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the API server answered."""

    status: int
    """HTTP status; 0 where no answer came."""

    body: Mapping[str, Any]
    retry_after_seconds: float | None = None

    @property
    def is_success(self) -> bool:
        """Whether it did what was asked."""
        return 200 <= self.status < 300  # noqa: PLR2004  # as HTTP defines success

    @property
    def message(self) -> str:
        """What the server said about it."""
        return str(self.body.get("message", "")) or f"HTTP status {self.status}"


class KubernetesApi:
    """A connection to one API server."""

    def __init__(self, api_client: Any, metrics: RequestMetrics) -> None:
        """Take over the client; close it with ``close``."""
        self._client = api_client
        self._metrics = metrics

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = JSON,
    ) -> Reply:
        """Send one request; a connection that fails is a reply with status 0."""
        try:
            reply = await self._request(method, path, query or {}, body, content_type)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            said = f"no answer from the API server: {error!r}"
            reply = Reply(status=0, body={"message": said})
        self._metrics.requested(method=method, code=reply.status)
        return reply

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Mapping[str, Any] | None,
        content_type: str,
    ) -> Reply:
        headers = {"Accept": JSON, "Content-Type": content_type}
        serialized = await self._client.param_serialize(
            method, path, query_params=list(query.items()), header_params=headers, body=body,
            auth_settings=["BearerToken"],
        )  # fmt: skip
        response = await self._client.call_api(*serialized, _request_timeout=REQUEST_SECONDS)
        text = await response.read()
        after = response.headers.get("Retry-After")
        return Reply(
            status=int(response.status),
            body=_parsed(text),
            retry_after_seconds=float(after) if after and after.isdecimal() else None,
        )


async def connect(metrics: RequestMetrics) -> KubernetesApi:
    """Connect as the pod's service account, or as the kubeconfig says outside of a cluster."""
    configuration = client.Configuration()
    if SERVICE_ACCOUNT.exists():
        config.load_incluster_config(client_configuration=configuration)
    else:
        await config.load_kube_config(client_configuration=configuration)
    return KubernetesApi(client.ApiClient(configuration), metrics)


def _parsed(text: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {"message": text.decode(errors="replace")[:500]}
    return found if isinstance(found, dict) else {}
