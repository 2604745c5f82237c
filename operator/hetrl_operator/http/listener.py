"""Listening sockets that silent, slow or many connections cannot exhaust.

A connection is idle from its start to its first whole request head, and between requests. Idle
connections end at a deadline. Where the limit of connections is reached, the one that is idle for
the longest time makes room, so that a new caller is always accepted; TLS handshakes count too.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

log = logging.getLogger(__name__)

IDLE_SECONDS = 15.0
"""For a TLS handshake and a request head, and between requests."""

REQUEST_SECONDS = 30.0
"""For a request's body and its response."""

MAX_CONNECTIONS = 100
"""Of one listener: a process with the common limit of 256 open files has room for two."""

_BACKLOG = 512


@dataclass(slots=True, eq=False)
class _Connection:
    """An accepted connection; its socket belongs to the event loop."""

    socket: socket.socket
    deadline: asyncio.TimerHandle | None = None
    is_busy: bool = False

    def end(self) -> None:
        """Break the connection, whatever state it is in."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


@dataclass(slots=True, eq=False, kw_only=True)
class _Connections:
    """The connections of one listener, the one that is idle for the longest time first."""

    idle_seconds: float
    max_connections: int
    open: dict[tuple[object, ...], _Connection] = field(default_factory=dict)
    """By the address of the peer, which is unique among them."""

    def enter(self, peer: tuple[object, ...], accepted: socket.socket) -> None:
        if len(self.open) >= self.max_connections:
            self._make_room()
        self.open[peer] = _Connection(socket=accepted)
        self.rest(peer)

    def rest(self, peer: tuple[object, ...]) -> None:
        """Begin to wait for a request."""
        if connection := self.open.pop(peer, None):
            self.open[peer] = connection
            connection.is_busy = False
            loop = asyncio.get_running_loop()
            connection.deadline = loop.call_later(self.idle_seconds, connection.end)

    def work(self, peer: tuple[object, ...]) -> None:
        """Stop to wait: there is a request, which has a deadline of its own."""
        if connection := self.open.get(peer):
            connection.is_busy = True
            if connection.deadline:
                connection.deadline.cancel()

    def leave(self, peer: tuple[object, ...]) -> None:
        connection = self.open.pop(peer, None)
        if connection and connection.deadline:
            connection.deadline.cancel()

    def _make_room(self) -> None:
        oldest = next((peer for peer, each in self.open.items() if not each.is_busy), None)
        peer = next(iter(self.open)) if oldest is None else oldest
        self.open[peer].end()
        self.leave(peer)


@contextlib.asynccontextmanager
async def served(
    app: web.Application,
    *,
    port: int,
    host: str | None = None,
    tls: ssl.SSLContext | None = None,
    idle_seconds: float = IDLE_SECONDS,
    max_connections: int = MAX_CONNECTIONS,
) -> AsyncIterator[int]:
    """Serve an application for as long as the context lives; yields the port.

    ``host`` None: on every address.

    Raises:
        OSError: the port is taken.
    """
    connections = _Connections(idle_seconds=idle_seconds, max_connections=max_connections)
    app.middlewares.insert(0, _limited(connections))
    runner = web.AppRunner(
        app, access_log=None, shutdown_timeout=2.0, keepalive_timeout=idle_seconds
    )
    await runner.setup()
    listening = _listening(host, port)
    accepting = asyncio.create_task(_accept(listening, runner, connections, tls))
    try:
        yield int(listening.getsockname()[1])
    finally:
        accepting.cancel()
        await asyncio.gather(accepting, return_exceptions=True)
        listening.close()
        await runner.cleanup()


def _listening(host: str | None, port: int) -> socket.socket:
    if host is None and socket.has_dualstack_ipv6():
        found = socket.create_server(
            ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG
        )
    else:
        family = socket.AF_INET6 if ":" in (host or "") else socket.AF_INET
        found = socket.create_server((host or "", port), family=family, backlog=_BACKLOG)
    found.setblocking(False)
    return found


def _limited(connections: _Connections) -> Middleware:
    @web.middleware
    async def limited(request: web.Request, handler: Handler) -> web.StreamResponse:
        peer = request.get_extra_info("peername")
        connections.work(peer)
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                return await handler(request)
        except TimeoutError as error:
            raise web.HTTPRequestTimeout(text="the request took too long") from error
        finally:
            connections.rest(peer)

    return limited


async def _accept(
    listening: socket.socket,
    runner: web.AppRunner,
    connections: _Connections,
    tls: ssl.SSLContext | None,
) -> None:
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        while True:
            try:
                accepted, peer = await loop.sock_accept(listening)
            except OSError:
                # No file is left: connections that end make room.
                await asyncio.sleep(0.1)
                continue
            connections.enter(peer, accepted)
            group.create_task(_connect(accepted, peer, runner, connections, tls))


async def _connect(
    accepted: socket.socket,
    peer: tuple[object, ...],
    runner: web.AppRunner,
    connections: _Connections,
    tls: ssl.SSLContext | None,
) -> None:
    """Give a connection to the server, and wait until it has ended."""
    assert runner.server, "the runner is set up"
    ended = asyncio.Event()
    protocol = _Noted(runner.server(), ended)
    try:
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: protocol,
            accepted,
            ssl=tls,
            ssl_handshake_timeout=connections.idle_seconds if tls else None,
        )
        await ended.wait()
    except OSError:
        pass  # The handshake failed, and the loop has closed the socket.
    except Exception:
        log.exception("a connection ended with an error")
    finally:
        connections.leave(peer)


class _Noted(asyncio.Protocol):
    """A protocol that passes everything on to aiohttp's, and notes the end of the connection."""

    def __init__(self, inner: asyncio.Protocol, ended: asyncio.Event) -> None:
        self._inner = inner
        self._ended = ended

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        try:
            self._inner.connection_lost(exc)
        finally:
            self._ended.set()
