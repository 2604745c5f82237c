"""Listeners that meet silent, slow and many connections."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from hetrl_operator.http.health import application
from hetrl_operator.http.listener import served
from hetrl_operator.http.progress import server_tls
from hetrl_operator.render import tls

SILENT = 300
STARTS = {
    "nothing": b"",
    "half-a-head": b"GET /healthz HT",
    "half-a-body": b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx",
    "half-a-hello": b"\x16\x03\x01\x02\x00\x01",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    issued = tls.issue(seed=os.urandom(32), job="operator", dns_names=(), now=datetime.now(UTC))
    leaf = issued.leaves[0][1]
    (tmp_path / "tls.crt").write_bytes(leaf.certificate)
    (tmp_path / "tls.key").write_bytes(leaf.key)
    return tmp_path


@contextlib.asynccontextmanager
async def a_listener(folder: Path, *, encrypted: bool, idle_seconds: float) -> AsyncIterator[int]:
    async def slow(request: web.Request) -> web.Response:
        await request.read()
        return web.Response()

    app = application(None, not_ready=lambda: "")
    app.router.add_post("/slow", slow)
    context = server_tls(folder) if encrypted else None
    async with served(
        app, port=0, host="127.0.0.1", tls=context, idle_seconds=idle_seconds, max_connections=50
    ) as port:
        yield port


@contextlib.contextmanager
def connections(port: int, start: bytes) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(SILENT):
            each = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            # One that made room is closed by now.
            with contextlib.suppress(OSError):
                each.sendall(start)
            found.append(each)
        yield found


async def healthz(port: int, *, encrypted: bool) -> int:
    url = f"{'https' if encrypted else 'http'}://127.0.0.1:{port}/healthz"
    async with aiohttp.ClientSession() as session, session.get(url, ssl=False) as reply:
        return reply.status


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
async def test_silent_connections_keep_nobody_waiting(
    folder: Path, start: bytes, encrypted: bool
) -> None:
    async with a_listener(folder, encrypted=encrypted, idle_seconds=3600) as port:
        with contextlib.ExitStack() as stack:
            # In a thread: the listener accepts them meanwhile.
            await asyncio.to_thread(stack.enter_context, connections(port, start))
            assert await healthz(port, encrypted=encrypted) == 200


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("start", [b"", b"GET /hea"], ids=["nothing", "half-a-head"])
async def test_idle_connection_ends_at_its_deadline(
    folder: Path, start: bytes, encrypted: bool
) -> None:
    async with a_listener(folder, encrypted=encrypted, idle_seconds=0.3) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(start)
        async with asyncio.timeout(60):
            with contextlib.suppress(ConnectionError):
                while await reader.read(100):
                    pass
        writer.close()


async def test_connection_with_requests_outlives_the_idle_deadline(folder: Path) -> None:
    async with a_listener(folder, encrypted=False, idle_seconds=2.0) as port:
        connector = aiohttp.TCPConnector(limit=1)
        async with aiohttp.ClientSession(connector=connector) as session:
            for _ in range(3):
                async with session.get(f"http://127.0.0.1:{port}/healthz") as reply:
                    assert reply.status == 200
