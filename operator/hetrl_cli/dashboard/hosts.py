"""Names under which the dashboard answers.

A page elsewhere can have its own name lead to this machine and then read what is served here. It
cannot change the name that the browser sends: only names that are ours are answered.
"""

import ipaddress
import socket
from collections.abc import Collection

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from yarl import URL

_MISDIRECTED = 421


def allowed_hosts(*, listens_on: str, more: Collection[str]) -> frozenset[str]:
    """Return the names under which a dashboard answers, beside all addresses."""
    return frozenset(
        each.lower() for each in ("localhost", socket.gethostname(), listens_on, *more)
    )


def is_allowed(host: str, allowed: Collection[str]) -> bool:
    """Tell whether a Host header is an address or a name of ours."""
    try:
        name = (URL(f"http://{host}").host or "").lower()
    except ValueError:
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name in allowed
    return True


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach an address to listen on."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def only(allowed: Collection[str]) -> Middleware:
    """Return a middleware that answers under these names, and under addresses."""

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        if is_allowed(request.headers.get("Host", ""), allowed):
            return await handler(request)
        text = "no dashboard under this name: --allow-host NAME lets it answer"
        return web.json_response({"error": text}, status=_MISDIRECTED)

    return answer
