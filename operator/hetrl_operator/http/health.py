"""Plain HTTP: the two questions of the kubelet, and metrics for Prometheus.

Health has a port of its own in a pod, so that nothing that scrapes can keep the kubelet waiting.
The port of metrics answers the same questions, for charts of releases before 0.3.0.
"""

from collections.abc import Callable

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest


def application(
    registry: CollectorRegistry | None, *, not_ready: Callable[[], str]
) -> web.Application:
    """Return the application; without a registry it answers questions of health alone.

    ``/healthz`` answers as long as the event loop turns: one that is blocked says nothing at all,
    which the kubelet takes for a failure. ``/readyz`` fails with what ``not_ready`` says.
    """

    async def healthz(_: web.Request) -> web.Response:
        return _answer("")

    async def readyz(_: web.Request) -> web.Response:
        return _answer(not_ready())

    found = web.Application()
    found.router.add_get("/healthz", healthz)
    found.router.add_get("/readyz", readyz)
    if registry is not None:
        found.router.add_get("/metrics", _metrics_of(registry))
    return found


def _answer(problem: str) -> web.Response:
    return web.Response(status=503 if problem else 200, text=f"{problem or 'ok'}\n")


def _metrics_of(registry: CollectorRegistry) -> Handler:
    async def metrics(_: web.Request) -> web.Response:
        headers = {"Content-Type": CONTENT_TYPE_LATEST}
        return web.Response(body=generate_latest(registry), headers=headers)

    return metrics
