"""Forwarding of progress reports from a standby replica to the leader.

A Service spreads connections over all replicas, and only the leader knows the jobs. The report is
forwarded unchanged, token included, over TLS to the replica that the Lease names.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from ssl import create_default_context
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

RELAYED = "X-HetRL-Relayed"
"""Header of a forwarded report: it is not forwarded again if replicas disagree on the leader."""

_SECONDS = 10.0
_AT_ONCE = 32
"""Reports under way to the leader: untrusted callers can send them too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderForwarder:
    """The forwarder to the leader."""

    leads: Callable[[], bool]
    """Whether this replica leads."""

    address: Callable[[], str]
    """Returns ``host:port`` of the leader; empty while no leader is known."""

    authority: Path
    """PEM that the leader's certificate is checked against."""

    url: str
    """``https://host:port`` of the Service; certificates are issued for its host."""

    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def forward(self, request: web.Request) -> web.Response:
        """Forward a report and return the leader's response; 503 if there is none."""
        if self._slots.locked():
            return _unavailable(f"{_AT_ONCE} reports are on their way to the leader; report again")
        async with self._slots:
            return await self._forward(request)

    async def _forward(self, request: web.Request) -> web.Response:
        address = self.address()
        if not address or RELAYED in request.headers:
            return _unavailable("no replica leads now; report again")
        headers = {RELAYED: "1", "Authorization": request.headers.get("Authorization", "")}
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_SECONDS)) as session,
                session.post(
                    f"https://{address}{request.path}",
                    data=await request.read(),
                    headers=headers,
                    ssl=create_default_context(cafile=self.authority),
                    server_hostname=urlsplit(self.url).hostname,
                ) as reply,
            ):
                body = await reply.read()
                return web.Response(status=reply.status, body=body, content_type=reply.content_type)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return _unavailable(f"the leader at {address} does not answer: {error!r}")


def _unavailable(text: str) -> web.Response:
    return web.json_response({"message": text}, status=HTTPStatus.SERVICE_UNAVAILABLE)
