"""``python -m hetrl_operator``: the operator's process, put together from its parts."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from uuid import uuid4

import kopf
from prometheus_client import CollectorRegistry

from hetrl_operator import logs
from hetrl_operator.cache.informer_cache import InformerCache
from hetrl_operator.cache.missed_deletes import MissedDeletes
from hetrl_operator.cache.pending_writes import Place
from hetrl_operator.http.forward_to_leader import LeaderForwarder
from hetrl_operator.http.health import application
from hetrl_operator.http.listener import served
from hetrl_operator.http.metrics import Metrics
from hetrl_operator.http.progress import Endpoint, server_tls
from hetrl_operator.http.token_reviews import Reviews
from hetrl_operator.kopf_adapter import handlers
from hetrl_operator.kopf_adapter.gc_tuning import collect_rarely
from hetrl_operator.kopf_adapter.handlers import Hooks
from hetrl_operator.kopf_adapter.initial_sync import InitialSync
from hetrl_operator.kopf_adapter.shutdown import GracefulShutdown
from hetrl_operator.kube.client import KubernetesApi, connect
from hetrl_operator.kube.kueue_availability import why_off
from hetrl_operator.kube.leader_election import Candidate, LeaderElection
from hetrl_operator.kube.rate_limiter import RateLimiter
from hetrl_operator.kube.writer import Writer
from hetrl_operator.model.labels import FIELD_MANAGER
from hetrl_operator.model.parse import JobKey
from hetrl_operator.planning.service import Planning
from hetrl_operator.reconcile.executor import Executor
from hetrl_operator.reconcile.reconciler import Controller, measure_lag
from hetrl_operator.reconcile.snapshot import Observer
from hetrl_operator.reconcile.workqueue import WorkQueue
from hetrl_operator.settings import Settings, from_environment

log = logging.getLogger("hetrl_operator")

_REVIEWS_PER_SECOND = 50
"""A tenth of the requests of jobs: three thousand coordinators, each reviewed once a minute."""


def main() -> None:
    """Run until SIGTERM; end with 1 and one line where the environment is wrong."""
    try:
        settings = from_environment(os.environ)
    except (ValueError, OSError) as error:
        sys.exit(f"hetrl-operator: {error}")
    logs.configure(settings.log_level)
    # kopf logs every event that it dispatches; we log our own actions instead.
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    collect_rarely()
    asyncio.run(run(settings))


async def run(settings: Settings) -> None:
    """Serve, wait until this replica leads, then watch and reconcile until a signal stops it."""
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    initial_sync, ready, stop = InitialSync(), asyncio.Event(), asyncio.Event()
    # kopf handles signals itself once it runs.
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        api = await _connected(stack, settings, metrics)
        election = _election(settings, await _connected(stack, settings, metrics))
        leads = election.leads if election else lambda: True
        hooks = Hooks(
            make_controller=lambda cache, queues_off: _controller(
                cache, settings, api, metrics, queues_off=queues_off, may_write=leads
            ),
            watch_silence_seconds=settings.watch_silence_seconds,
        )
        await _serve_health(stack, settings, registry, lambda: _not_ready(election, initial_sync))
        await _serve_progress(stack, settings, metrics, hooks, election)
        if election is None:
            await _lead(settings, api, hooks, metrics, initial_sync, ready=ready, stop=stop)
        elif await _acquired(election, stop):
            renewing = asyncio.create_task(_renew(election))
            try:
                await _lead(settings, api, hooks, metrics, initial_sync, ready=ready, stop=stop)
            finally:
                renewing.cancel()
                await election.release()


async def _serve_health(
    stack: contextlib.AsyncExitStack,
    settings: Settings,
    registry: CollectorRegistry,
    not_ready: Callable[[], str],
) -> None:
    ports = settings.endpoints
    shown_at: list[tuple[int, CollectorRegistry | None]] = [(ports.metrics_port, registry)]
    if ports.health_port is not None:
        shown_at.append((ports.health_port, None))
    for port, shown in shown_at:
        await stack.enter_async_context(served(application(shown, not_ready=not_ready), port=port))


async def _connected(
    stack: contextlib.AsyncExitStack, settings: Settings, metrics: Metrics
) -> KubernetesApi:
    rate_limiter = RateLimiter(
        per_second=settings.client.requests_per_second, burst=settings.client.requests_at_once
    )
    api = await connect(metrics, rate_limiter=rate_limiter)
    stack.push_async_callback(api.close)
    return api


def _election(settings: Settings, api: KubernetesApi) -> LeaderElection | None:
    """Return the leader election; its connection is not rate-limited together with jobs'."""
    ours = settings.election
    if ours is None:
        return None
    candidate = Candidate(
        namespace=ours.namespace,
        lease=ours.lease,
        identity=f"{ours.pod}_{uuid4().hex[:8]}",
        address=ours.address,
    )
    return LeaderElection(api=api, candidate=candidate)


async def _acquired(election: LeaderElection, stop: asyncio.Event) -> bool:
    """Wait until this replica leads; return False if it must stop before that."""
    acquiring, stopping = asyncio.create_task(election.acquire()), asyncio.create_task(stop.wait())
    await asyncio.wait({acquiring, stopping}, return_when=asyncio.FIRST_COMPLETED)
    acquired = acquiring.done()
    for each in (acquiring, stopping):
        each.cancel()
    ended = await asyncio.gather(acquiring, stopping, return_exceptions=True)
    if isinstance(ended[0], Exception):
        raise ended[0]
    return acquired


async def _renew(election: LeaderElection) -> None:
    await election.renew()
    # Exit at once: during a graceful shutdown another replica would act already.
    os._exit(1)


async def _lead(
    settings: Settings,
    api: KubernetesApi,
    hooks: Hooks,
    metrics: Metrics,
    initial_sync: InitialSync,
    *,
    ready: asyncio.Event,
    stop: asyncio.Event,
) -> None:
    """Watch and reconcile until a signal stops the process."""
    metrics.leads.set(1)
    hooks.queues_off = await why_off(api, is_wanted=settings.kueue)
    work = asyncio.create_task(_work(settings, hooks, metrics, ready))
    # Without workers the operator is useless: kopf stops as well, and the pod restarts.
    work.add_done_callback(lambda _: stop.set())
    try:
        await _watch(settings, hooks, initial_sync, ready=ready, stop=stop)
    finally:
        work.cancel()
        ended = await asyncio.gather(work, return_exceptions=True)
        if hooks.controller:
            await hooks.controller.planning.close()
    if isinstance(ended[0], Exception):
        raise ended[0]


def _not_ready(election: LeaderElection | None, initial_sync: InitialSync) -> str:
    """Say why this replica is not ready; empty if it is. A standby replica can be ready."""
    if election and not election.leads():
        return "" if election.has_seen_lease() else "the lease has not been read yet"
    return (
        ""
        if initial_sync.has_synced()
        else "the objects that there are have not all been listed yet"
    )


async def _watch(
    settings: Settings,
    hooks: Hooks,
    initial_sync: InitialSync,
    *,
    ready: asyncio.Event,
    stop: asyncio.Event,
) -> None:
    initial_sync.install()
    kopf_registry = kopf.OperatorRegistry()
    handlers.register(kopf_registry, hooks)
    # As kopf.operator does, except for the time limit of a shutdown.
    existing, ending = asyncio.all_tasks(), GracefulShutdown()
    tasks = await kopf.spawn_tasks(
        registry=kopf_registry,
        standalone=True,
        # kopf would ask for the user's name, and user 65532 of our image has none.
        identity=FIELD_MANAGER,
        clusterwide=not settings.namespaces,
        namespaces=settings.namespaces,
        ready_flag=ready,
        stop_flag=stop,
    )
    ending.watch(tasks)
    try:
        await kopf.run_tasks(tasks, ignored=existing)
    finally:
        ending.over()


async def _work(settings: Settings, hooks: Hooks, metrics: Metrics, ready: asyncio.Event) -> None:
    """Run the workers; consumes: job keys   waits for: kopf's start   unblocked by: handlers."""
    await ready.wait()
    assert hooks.controller, "kopf is ready only after its start-up handlers"
    hooks.controller.planning.wake()
    async with asyncio.TaskGroup() as group:
        group.create_task(measure_lag(metrics))
        group.create_task(hooks.controller.missed_deletes.work())
        for _ in range(settings.workers):
            group.create_task(hooks.controller.work())


async def _serve_progress(
    stack: contextlib.AsyncExitStack,
    settings: Settings,
    metrics: Metrics,
    hooks: Hooks,
    election: LeaderElection | None,
) -> None:
    directory = settings.endpoints.tls_directory
    if directory is None:
        log.warning("no progress endpoint: HETRL_TLS_DIRECTORY is not set")
        return
    # Untrusted callers can start reviews: these wait for a connection and a rate of their own.
    rate_limiter = RateLimiter(per_second=_REVIEWS_PER_SECOND, burst=_REVIEWS_PER_SECOND)
    reviewer = await connect(metrics, rate_limiter=rate_limiter)
    stack.push_async_callback(reviewer.close)
    endpoint = Endpoint(
        reviews=Reviews(api=reviewer),
        job=lambda key: hooks.controller.cache.job(key) if hooks.controller else None,
        coordinators=lambda job: (
            hooks.controller.cache.reporting_pods_of(job) if hooks.controller else frozenset()
        ),
        report=lambda key, uid, said: (
            hooks.controller.report(key, uid, said) if hooks.controller else None
        ),
        forwarder=LeaderForwarder(
            leads=election.leads,
            address=election.leader_address,
            authority=directory / "ca.crt",
            url=settings.pods.progress_url,
        )
        if election
        else None,
    )
    await stack.enter_async_context(
        served(
            endpoint.application(),
            port=settings.endpoints.progress_port,
            tls=server_tls(directory),
        )
    )


def _controller(
    cache: InformerCache,
    settings: Settings,
    api: KubernetesApi,
    metrics: Metrics,
    *,
    queues_off: str,
    may_write: Callable[[], bool],
) -> Controller:
    queue: WorkQueue[JobKey] = WorkQueue(metrics=metrics.workqueue)
    metrics.watch_fleet(cache.nodes)
    planning = Planning(
        settings=settings.planner, fleet_view=cache, metrics=metrics, answered=queue.add
    )

    def missed_delete(place: Place) -> None:
        controller.handle_missed_delete(place)

    def gpus_freed() -> None:
        controller.enqueue_unplanned()

    missed_deletes = MissedDeletes(
        api=api, cache=cache, namespaces=settings.namespaces, on_deleted=missed_delete
    )
    controller = Controller(
        cache=cache,
        observer=Observer(cache=cache, planning=planning, queues_off=queues_off),
        executor=Executor(
            writer=Writer(api, may_write=may_write),
            planning=planning,
            pending_writes=cache.pending_writes,
            missed_deletes=missed_deletes,
            queue=queue,
            metrics=metrics,
            on_gpus_freed=gpus_freed,
        ),
        queue=queue,
        planning=planning,
        missed_deletes=missed_deletes,
        metrics=metrics,
        pods=settings.pods,
    )
    return controller


if __name__ == "__main__":
    main()
