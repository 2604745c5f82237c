"""A quick client of the API server: many requests at once over a few connections."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import aiohttp

from e2e.faults.api import MERGE, PATHS
from e2e.faults.upstream import Upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Json = dict[str, Any]

CONNECTIONS = 16
"""More would only queue in the API server."""

_TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
_TIMEOUT = aiohttp.ClientTimeout(total=120)
_POLL_SECONDS = 0.5
EVERYWHERE = {kind: path.replace("/namespaces/{}", "") for kind, path in PATHS.items()}
"""The path at which objects of a kind are listed in all namespaces."""

APPLY = "application/apply-patch+yaml"


_BUSY = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT}


class RefusedError(Exception):
    """The API server did not do what was asked."""


class BusyError(RefusedError):
    """It has too much to do, and may answer later."""


@dataclass(frozen=True, slots=True)
class Client:
    """One user's requests."""

    session: aiohttp.ClientSession
    server: str

    async def ask(
        self, method: str, path: str, body: Json | None = None, *, type_: str = "", accept: str = ""
    ) -> Json:
        """Send a request, and return the answer; what is gone already may be deleted again."""
        headers = {"Content-Type": type_ or "application/json"}
        if accept:
            headers["Accept"] = accept
        async with self.session.request(
            method,
            self.server + path,
            data=json.dumps(body).encode() if body is not None else None,
            headers=headers,
        ) as reply:
            text = await reply.read()
            if method == "DELETE" and reply.status == HTTPStatus.NOT_FOUND:
                return {}
            if reply.status >= HTTPStatus.BAD_REQUEST:
                kind = BusyError if reply.status in _BUSY else RefusedError
                raise kind(f"{method} {path}: {reply.status} {text.decode()[:500]}")
            found: Json = json.loads(text)
            return found

    async def merge(self, path: str, body: Json) -> Json:
        """Change some fields."""
        return await self.ask("PATCH", path, body, type_=MERGE)

    async def apply(self, path: str, body: Json) -> Json:
        """Apply an object server-side, as a client of its own."""
        query = "fieldManager=load&force=true"
        return await self.ask("PATCH", f"{path}?{query}", body, type_=APPLY)

    async def count(self, kind: str) -> int:
        """Count the objects of a kind in all namespaces, for little."""
        page = await self.ask("GET", f"{EVERYWHERE[kind]}?limit=1")
        return len(page["items"] or ()) + int(page["metadata"].get("remainingItemCount", 0))

    async def column(self, kind: str, name: str) -> list[str]:
        """Return one column of what ``kubectl get`` shows, for all namespaces.

        As of some moment before: what the server has in memory costs it least.
        """
        path = f"{EVERYWHERE[kind]}?includeObject=None&resourceVersion=0"
        table = await self.ask("GET", path, accept=_TABLE)
        titles = [each["name"] for each in table["columnDefinitions"]]
        index = titles.index(name)
        return [str(row["cells"][index]) for row in table["rows"]]


@asynccontextmanager
async def client(upstream: Upstream) -> AsyncIterator[Client]:
    """Connect."""
    connector = aiohttp.TCPConnector(ssl=upstream.tls(), limit=CONNECTIONS)
    async with aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT) as session:
        yield Client(session, upstream.server)


async def all_of(made: Iterable[Awaitable[Any]], *, at_once: int = 2 * CONNECTIONS) -> list[Any]:
    """Carry many requests out, so many at once, and return their answers in order."""
    free = asyncio.Semaphore(at_once)

    async def one(each: Awaitable[Any]) -> Any:
        async with free:
            return await each

    return await asyncio.gather(*(one(each) for each in made))


async def until(
    probe: Callable[[], Awaitable[Any]],
    *,
    what: str,
    seconds: float,
    every: float = _POLL_SECONDS,
) -> Any:
    """Ask until the answer is true, and return it."""
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + seconds
    while not (found := await _answer(probe)):
        if loop.time() > ends_at:
            raise TimeoutError(f"not within {seconds:g} s: {what}; last: {found!r}")
        await asyncio.sleep(every)
    return found


async def _answer(probe: Callable[[], Awaitable[Any]]) -> Any:
    """Ask once; a server that is too busy to answer may do so the next time."""
    try:
        return await probe()
    except (TimeoutError, aiohttp.ClientError, BusyError):
        return None
