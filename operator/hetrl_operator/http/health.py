"""The plain HTTP port: metrics for Prometheus, and the two questions of the kubelet."""

import contextlib
import ssl
from collections.abc import AsyncIterator, Callable

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest


def application(registry: CollectorRegistry, *, not_ready: Callable[[], str]) -> web.Application:
    """Return the application.

    ``/healthz`` answers as long as the event loop turns: one that is blocked says nothing at all,
    which the kubelet takes for a failure. ``/readyz`` fails with what ``not_ready`` says.
    """

    async def metrics(_: web.Request) -> web.Response:
        headers = {"Content-Type": CONTENT_TYPE_LATEST}
        return web.Response(body=generate_latest(registry), headers=headers)

    async def healthz(_: web.Request) -> web.Response:
        return _answer("")

    async def readyz(_: web.Request) -> web.Response:
        return _answer(not_ready())

    found = web.Application()
    found.router.add_get("/metrics", metrics)
    found.router.add_get("/healthz", healthz)
    found.router.add_get("/readyz", readyz)
    return found


def _answer(problem: str) -> web.Response:
    return web.Response(status=503 if problem else 200, text=f"{problem or 'ok'}\n")


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
