"""Requests to the API server, with responses as values, over the official asyncio client.

The client's generated methods are not used: they validate and copy every object, and raise for
responses that ``writer`` expects. The client provides authentication, TLS and connection pooling.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from kubernetes.aio import client, config

from hetrl_operator.kube.rate_limiter import RateLimiter

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
REQUEST_SECONDS = 30.0

_MOST_CONNECTIONS = 32
"""Limit of connections: each takes 190 KiB for TLS, and more are no faster."""

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC_MERGE = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
JSON = "application/json"
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""Media type of an object's metadata without its content."""

NAMES_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Media type of a list of objects' metadata without their content."""


class RequestMetrics(Protocol):
    """The metrics of requests."""

    def requested(self, *, method: str, code: int) -> None:
        """Count one request; code 0 means no response."""

    def throttled(self, seconds: float) -> None:
        """Record how long a request waited for the rate limiter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A response of the API server."""

    status: int
    """HTTP status; 0 if no response came."""

    body: Mapping[str, Any]
    retry_after_seconds: float | None = None

    @property
    def is_success(self) -> bool:
        """Whether the request succeeded."""
        return 200 <= self.status < 300  # noqa: PLR2004  # as HTTP defines success

    @property
    def message(self) -> str:
        """The server's message about the request."""
        return str(self.body.get("message", "")) or f"HTTP status {self.status}"


class KubernetesApi:
    """A connection to one API server."""

    def __init__(
        self,
        api_client: Any,
        metrics: RequestMetrics,
        *,
        rate_limiter: RateLimiter,
        log_in: Callable[[], Awaitable[None]],
    ) -> None:
        """Take over the client; close it with ``close``.

        Args:
            api_client: the official client, logged in.
            metrics: counts requests.
            rate_limiter: limits requests.
            log_in: reads the credentials again into the client's configuration.
        """
        self._client = api_client
        self._metrics = metrics
        self._rate_limiter = rate_limiter
        self._log_in = log_in

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | list[dict[str, Any]] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout_seconds: float = REQUEST_SECONDS,
    ) -> Reply:
        """Send one request; a connection that fails is a reply with status 0.

        If the API server rejects the credentials, as after a token has expired, they are read again
        and the request is sent once more.
        """
        self._metrics.throttled(await self._rate_limiter.take())

        request = _Request(
            method=method,
            path=path,
            query=query or {},
            body=body,
            timeout_seconds=timeout_seconds,
            headers={"Accept": accept, "Content-Type": content_type},
        )
        reply = await self._answered(request)
        if reply.status == HTTPStatus.UNAUTHORIZED:
            await self._log_in()
            reply = await self._answered(request)
        return reply

    async def _answered(self, request: "_Request") -> Reply:
        try:
            reply = await self._send(request)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            said = f"no answer from the API server: {error!r}"
            reply = Reply(status=0, body={"message": said})
        self._metrics.requested(method=request.method, code=reply.status)
        return reply

    async def _send(self, request: "_Request") -> Reply:
        serialized = await self._client.param_serialize(
            request.method,
            request.path,
            query_params=list(request.query.items()),
            header_params=dict(request.headers),
            body=request.body,
            auth_settings=["BearerToken"],
        )
        response = await self._client.call_api(
            *serialized, _request_timeout=request.timeout_seconds
        )
        text = await response.read()
        after = response.headers.get("Retry-After")
        return Reply(
            status=int(response.status),
            body=_parsed(text),
            retry_after_seconds=float(after) if after and after.isdecimal() else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """What is asked, to be asked again where we must log in first."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Mapping[str, Any] | list[dict[str, Any]] | None
    headers: Mapping[str, str]
    timeout_seconds: float


async def connect(metrics: RequestMetrics, *, rate_limiter: RateLimiter) -> KubernetesApi:
    """Connect as the pod's service account, or as the kubeconfig says outside of a cluster."""
    configuration = client.Configuration()

    async def log_in() -> None:
        if SERVICE_ACCOUNT.exists():
            config.load_incluster_config(client_configuration=configuration)
        else:
            await config.load_kube_config(client_configuration=configuration)

    await log_in()
    # Else aiohttp reads .netrc and the environment at every request, in threads.
    configuration.client_session_kwargs = {"trust_env": False}
    configuration.connection_pool_maxsize = _MOST_CONNECTIONS
    configuration.proxy = configuration.proxy or _proxy(configuration.host)
    return KubernetesApi(
        client.ApiClient(configuration), metrics, rate_limiter=rate_limiter, log_in=log_in
    )


def _proxy(url: str) -> str | None:
    """Return the proxy that the environment names for a server."""
    found = urlsplit(url)
    return None if proxy_bypass(found.hostname or "") else getproxies().get(found.scheme)


def _parsed(text: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {"message": text.decode(errors="replace")[:500]}
    return found if isinstance(found, dict) else {}
