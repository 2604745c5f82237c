"""``python -m hetrl_operator``: the operator's process, put together from its parts."""

import asyncio
import contextlib
import logging
import os
import sys

import kopf
from prometheus_client import CollectorRegistry

from hetrl_operator import handlers
from hetrl_operator.apply import Writer
from hetrl_operator.controller import Controller, measure_lag
from hetrl_operator.endpoints import application, served
from hetrl_operator.handlers import Hooks
from hetrl_operator.kubernetes_api import KubernetesApi, connect
from hetrl_operator.labels import FIELD_MANAGER
from hetrl_operator.metrics import Metrics
from hetrl_operator.observe import JobKey
from hetrl_operator.planning import Planning
from hetrl_operator.progress import Endpoint, Reviews, server_tls
from hetrl_operator.queue import WorkQueue
from hetrl_operator.settings import Settings, from_environment
from hetrl_operator.views import Views

log = logging.getLogger("hetrl_operator")


def main() -> None:
    """Run until SIGTERM; end with 1 and one line where the environment is wrong."""
    try:
        settings = from_environment(os.environ)
    except (ValueError, OSError) as error:
        sys.exit(f"hetrl-operator: {error}")
    logging.basicConfig(
        level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    # kopf tells every event that it hands over; we tell what we make of them.
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    asyncio.run(run(settings))


async def run(settings: Settings) -> None:
    """Serve, watch and work until kopf is told to stop."""
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    ready = asyncio.Event()
    async with contextlib.AsyncExitStack() as stack:
        api = await connect(metrics)
        stack.push_async_callback(api.close)
        hooks = Hooks(make_controller=lambda views: _controller(views, settings, api, metrics))
        await stack.enter_async_context(
            served(application(registry, ready=ready), port=settings.endpoints.metrics_port)
        )
        await _serve_progress(stack, settings, api, hooks)
        stop = asyncio.Event()
        work = asyncio.create_task(_work(settings, hooks, metrics, ready))
        # Without workers there is no operator: kopf stops as well, and the pod is restarted.
        work.add_done_callback(lambda _: stop.set())
        try:
            await _watch(settings, hooks, ready=ready, stop=stop)
        finally:
            work.cancel()
            ended = await asyncio.gather(work, return_exceptions=True)
            if hooks.controller:
                await hooks.controller.planning.close()
        if isinstance(ended[0], Exception):
            raise ended[0]


async def _watch(
    settings: Settings, hooks: Hooks, *, ready: asyncio.Event, stop: asyncio.Event
) -> None:
    kopf_registry = kopf.OperatorRegistry()
    handlers.register(kopf_registry, hooks)
    await kopf.operator(
        registry=kopf_registry,
        standalone=True,
        # kopf would ask for the user's name, and user 65532 of our image has none.
        identity=FIELD_MANAGER,
        clusterwide=not settings.namespaces,
        namespaces=settings.namespaces,
        ready_flag=ready,
        stop_flag=stop,
    )


async def _work(settings: Settings, hooks: Hooks, metrics: Metrics, ready: asyncio.Event) -> None:
    """Run the workers; consumes: job keys   waits for: kopf's start   unblocked by: handlers."""
    await ready.wait()
    assert hooks.controller, "kopf is ready only after its start-up handlers"
    async with asyncio.TaskGroup() as group:
        group.create_task(measure_lag(metrics))
        for _ in range(settings.workers):
            group.create_task(hooks.controller.work())


async def _serve_progress(
    stack: contextlib.AsyncExitStack, settings: Settings, api: KubernetesApi, hooks: Hooks
) -> None:
    directory = settings.endpoints.tls_directory
    if directory is None:
        log.warning("no progress endpoint: HETRL_TLS_DIRECTORY is not set")
        return
    endpoint = Endpoint(
        reviews=Reviews(api=api),
        job=lambda key: hooks.controller.views.job(key) if hooks.controller else None,
        pods=lambda job: hooks.controller.views.pods_of(job) if hooks.controller else (),
        report=lambda key, uid, said: (
            hooks.controller.report(key, uid, said) if hooks.controller else None
        ),
    )
    await stack.enter_async_context(
        served(
            endpoint.application(),
            port=settings.endpoints.progress_port,
            tls=server_tls(directory),
        )
    )


def _controller(
    views: Views, settings: Settings, api: KubernetesApi, metrics: Metrics
) -> Controller:
    queue: WorkQueue[JobKey] = WorkQueue(metrics=metrics.workqueue)
    planning = Planning(
        settings=settings.planner, fleet_view=views, metrics=metrics, answered=queue.add
    )
    return Controller(
        views=views,
        queue=queue,
        planning=planning,
        writer=Writer(api),
        metrics=metrics,
        pods=settings.pods,
    )


if __name__ == "__main__":
    main()
