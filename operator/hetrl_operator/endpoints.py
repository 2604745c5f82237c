"""The plain HTTP port: metrics for Prometheus, and the two questions of the kubelet."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest


def application(registry: CollectorRegistry, *, ready: asyncio.Event) -> web.Application:
    """Return the application.

    ``/healthz`` answers as long as the event loop turns; ``/readyz`` once the watches run.
    """

    async def metrics(_: web.Request) -> web.Response:
        headers = {"Content-Type": CONTENT_TYPE_LATEST}
        return web.Response(body=generate_latest(registry), headers=headers)

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        if ready.is_set():
            return web.Response(text="ok\n")
        return web.Response(status=503, text="watches are not running yet\n")

    found = web.Application()
    found.router.add_get("/metrics", metrics)
    found.router.add_get("/healthz", healthz)
    found.router.add_get("/readyz", readyz)
    return found


@contextlib.asynccontextmanager
async def served(
    app: web.Application, *, port: int, tls: ssl.SSLContext | None = None
) -> AsyncIterator[None]:
    """Serve an application on every address for as long as the context lives."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=2.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, port=port, ssl_context=tls).start()
        yield
    finally:
        await runner.cleanup()
