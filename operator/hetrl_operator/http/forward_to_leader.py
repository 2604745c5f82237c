"""Reports that reach a replica which does not lead, passed on to the one that does.

A Service spreads connections over all replicas, and only the leader knows the jobs. The report
goes on as it came, token included, over TLS to the very replica that the Lease names.
"""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from ssl import create_default_context
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

RELAYED = "X-HetRL-Relayed"
"""Set on what was passed on once: two replicas that disagree must not play ball."""

_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """The way to the leader."""

    leads: Callable[[], bool]
    """Whether we are the leader ourselves."""

    address: Callable[[], str]
    """Returns ``host:port`` of the leader; empty while nobody is known to lead."""

    authority: Path
    """PEM that the leader's certificate is checked against."""

    url: str
    """``https://host:port`` as pods reach us all; the host is what certificates are for."""

    async def pass_on(self, request: web.Request) -> web.Response:
        """Ask the leader, and return its answer; 503 where there is none."""
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
