"""The coordinator's process: listens, ticks, reports, and ends when the run does.

serve     waits for: the run's end, or a request to stop
ticking   every half second: expired leases, deadlines, the progress file
posting   every 15 seconds: progress to the operator, where the contract names one
checking  waits for: rows of the data that cannot be used, until a deadline; unblocks leases
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry

from hetrl_core.job.identity import Aspect, Value
from hetrl_core.launch import Address, Launch
from hetrl_ownership.owned_folder import OwnedFolder
from hetrl_runtime.coordinator.reporting.progress_post import ProgressPost
from hetrl_runtime.coordinator.reporting.run_files import ReportFiles, as_json
from hetrl_runtime.coordinator.rules.data_changes import DataChangedError
from hetrl_runtime.coordinator.rules.deadlines import DATA_CHANGED, DATA_INVALID, TRACES_UNAVAILABLE
from hetrl_runtime.coordinator.rules.prompts import Prompts
from hetrl_runtime.coordinator.run import GONE_SECONDS, LEASE_SECONDS, Run
from hetrl_runtime.coordinator.service import CoordinatorService
from hetrl_runtime.data.fetching.fetch import fetched
from hetrl_runtime.data.identity import data_identity
from hetrl_runtime.data.left_out import LeftOutPrompt
from hetrl_runtime.data.open_data import open_data
from hetrl_runtime.data.prompt import PromptSource, Unusable
from hetrl_runtime.metrics.coordinator import CoordinatorMetrics
from hetrl_runtime.metrics.server import MetricsServer
from hetrl_runtime.tracing.span import Tracer
from hetrl_runtime.tracing.tracer import TracesUnavailableError, tracer_of
from hetrl_runtime.transport.channel import bind, open_async_server
from hetrl_runtime.transport.event_loop import wait_at_most
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.hetrl_pb2_grpc import add_CoordinatorServicer_to_server
from hetrl_runtime.wire.values import Ending

log = logging.getLogger(__name__)

TICK_SECONDS = 0.5
TAKEOVER_SECONDS = 30.0
"""How long an earlier coordinator of the same run may take to end."""

ROW_CHECK_SECONDS = 120.0
"""How long a new run waits for the check of all rows; what is left is found as it comes."""

SHUTDOWN_SECONDS = 30.0
"""How long the ended coordinator stays for processes that do not know of the end."""


RowCheck = Callable[[Launch], AsyncIterator[LeftOutPrompt]]
"""Yields the prompts of a contract's data on this machine that cannot be used."""


async def serve(
    launch: Launch,
    *,
    stop: asyncio.Event,
    lease_seconds: float = LEASE_SECONDS,
    row_check: RowCheck | None = None,
) -> Ending | None:
    """Coordinate a run until it ends, and return how; None when stopped before that.

    ``row_check`` finds prompts that cannot be used before the first one goes out; without it, the
    workers find them.

    Raises:
        OSError: a port is taken, a file cannot be written, or another process owns the state.
        ValueError: the contract asks for an unencrypted port beyond loopback.
    """
    with contextlib.closing(await _taken(launch)):
        return await _coordinate(
            launch, stop=stop, lease_seconds=lease_seconds, row_check=row_check
        )


async def _coordinate(
    launch: Launch, *, stop: asyncio.Event, lease_seconds: float, row_check: RowCheck | None
) -> Ending | None:
    post = ProgressPost(launch.progress, launch.job) if launch.progress else None
    opened = await _open(launch, stop)
    if isinstance(opened, Unusable):
        if stop.is_set():
            return None
        return await _refuse(launch, DATA_INVALID, opened.message, post)
    checked = row_check(opened.local) if row_check else None
    try:
        with (
            contextlib.closing(opened.prompts),
            tracer_of(launch, process=f"{launch.pod_set}-0") as tracer,
        ):
            return await _serve(
                launch, opened, post, tracer, checked, stop=stop, lease_seconds=lease_seconds
            )
    except DataChangedError as error:
        return await _refuse(launch, DATA_CHANGED, str(error), post)
    except TracesUnavailableError as error:
        return await _refuse(launch, TRACES_UNAVAILABLE, str(error), post)


class _Opened(NamedTuple):
    """The prompts of a job."""

    prompts: PromptSource
    identity: Value
    """What tells their data apart."""

    local: Launch
    """The contract, with where they are on this machine."""


async def _taken(launch: Launch) -> OwnedFolder:
    """Own the run's state; an earlier coordinator of this run may still be writing its journal."""
    return await asyncio.to_thread(
        OwnedFolder.take,
        Path(launch.state_path),
        run=launch.job.uid,
        wait_seconds=TAKEOVER_SECONDS,
    )


async def _open(launch: Launch, stop: asyncio.Event) -> _Opened | Unusable:
    """Open the prompts in a thread, which a stop ends where it waits for a hub."""
    given_up = threading.Event()

    async def give_up() -> None:
        await stop.wait()
        given_up.set()

    giving_up = asyncio.create_task(give_up())
    try:
        return await asyncio.to_thread(_opened, launch, given_up)
    finally:
        giving_up.cancel()


def _opened(launch: Launch, stop: threading.Event) -> _Opened | Unusable:
    """Return the prompts, checked, and where they are on this machine."""
    data = fetched(
        launch.data,
        state_path=Path(launch.state_path),
        timeout_seconds=launch.startup_deadline_seconds,
        stop=stop,
        accepts_changes=Aspect.DATA in launch.training.allowed_changes,
    )
    if isinstance(data, Unusable):
        return data
    prompts = open_data(data)
    if isinstance(prompts, Unusable):
        return prompts
    return _Opened(prompts, data_identity(launch.data, data), replace(launch, data=data))


async def _refuse(launch: Launch, reason: str, message: str, post: ProgressPost | None) -> Ending:
    """End a run that cannot be as it was asked for."""
    ending = Ending(reason=reason, message=message)
    progress = pb.Progress(
        total_steps=launch.training.steps,
        finished=True,
        outcome=ending.outcome,
        reason=ending.reason,
        message=ending.message,
    )
    ReportFiles(Path(launch.state_path)).write_result(ending, progress=progress)
    if post:
        await post.post(as_json(progress))
    return ending


async def _serve(
    launch: Launch,
    opened: _Opened,
    post: ProgressPost | None,
    tracer: Tracer,
    checked: AsyncIterator[LeftOutPrompt] | None,
    *,
    stop: asyncio.Event,
    lease_seconds: float,
) -> Ending | None:
    registry = CollectorRegistry()
    run = Run(
        launch,
        Prompts(opened.prompts, seed=launch.training.seed),
        CoordinatorMetrics(registry),
        first_epoch=int(time.time()),
        now=time.monotonic(),
        data=opened.identity,
        lease_seconds=lease_seconds,
        tracer=tracer,
    )
    with contextlib.closing(run), MetricsServer(registry, launch) as served:
        service = CoordinatorService(run)
        # The journal has the run's end, but not which processes know of it. Those that do not
        # ask again within moments, and must find a coordinator.
        stay_seconds = GONE_SECONDS if run.ending else 0.0
        async with _checking(run, service, checked), _listening(launch, service):
            served.say_ready()
            await _until_over(run, service, post, stop=stop)
            run.publish()
            if run.ending:
                await _shut_down_gracefully(run, post, at_least_seconds=stay_seconds)
    return run.ending


@contextlib.asynccontextmanager
async def _checking(
    run: Run, service: CoordinatorService, left_out: AsyncIterator[LeftOutPrompt] | None
) -> AsyncIterator[None]:
    """Check the rows of the data beside what is done in this context."""
    if left_out is None:
        yield
        return
    run.checks_rows = True
    checking = asyncio.create_task(_check_rows(run, service, left_out))
    try:
        yield
    finally:
        checking.cancel()
        await asyncio.gather(checking, return_exceptions=True)


async def _check_rows(
    run: Run, service: CoordinatorService, left_out: AsyncIterator[LeftOutPrompt]
) -> None:
    try:
        longest_seconds = min(ROW_CHECK_SECONDS, run.launch.startup_deadline_seconds / 2)
        async with asyncio.timeout(longest_seconds):
            async for each in left_out:
                run.leave_out(each)
    except TimeoutError:
        log.warning("rows not checked to their end: the others are checked as they are used")
    except OSError as error:
        log.warning("rows not checked, each is as it is used: %s", error)
    finally:
        run.checks_rows = False
        service.announce_change()


@contextlib.asynccontextmanager
async def _listening(launch: Launch, service: CoordinatorService) -> AsyncIterator[None]:
    server = open_async_server()
    add_CoordinatorServicer_to_server(service, server)
    address = Address(host=launch.listen_host, port=launch.coordinator.port)
    port = bind(server, address, launch.tls)
    await server.start()
    log.info("coordinator listens: address=%s:%d", launch.listen_host, port)
    try:
        yield
    finally:
        await server.stop(grace=1.0)


async def _until_over(
    run: Run, service: CoordinatorService, post: ProgressPost | None, *, stop: asyncio.Event
) -> None:
    posting = asyncio.create_task(_keep_posting(run, post)) if post else None
    try:
        while not stop.is_set() and run.ending is None:
            if run.journal.failure:
                raise run.journal.failure
            if run.tick(now=time.monotonic()):
                service.announce_change()
            run.publish()
            await wait_at_most(stop, TICK_SECONDS)
    finally:
        if posting:
            posting.cancel()
            await asyncio.gather(posting, return_exceptions=True)


async def _keep_posting(run: Run, post: ProgressPost) -> None:
    while True:
        await asyncio.sleep(post.wait_seconds)
        await post.post(as_json(run.progress()))


async def _shut_down_gracefully(
    run: Run, post: ProgressPost | None, *, at_least_seconds: float
) -> None:
    """Stay until everyone has left, and the operator knows."""
    began_at = time.monotonic()
    ends_at = began_at + SHUTDOWN_SECONDS
    is_posted = post is None
    while time.monotonic() < ends_at:
        if post and not is_posted and not post.wait_seconds:
            is_posted = await post.post(as_json(run.progress()))
        now = time.monotonic()
        if is_posted and now - began_at >= at_least_seconds and not run.is_attended(now=now):
            return
        await asyncio.sleep(0.1)
    log.warning("leaving although not everyone has heard of the end")
