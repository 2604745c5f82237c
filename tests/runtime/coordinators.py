"""A coordinator of the test's own event loop, really listening."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from hetrl_core.launch import Launch
from hetrl_runtime.coordinator.run import LEASE_SECONDS
from hetrl_runtime.coordinator.server import RowCheck, serve
from hetrl_runtime.wire.values import Ending


@contextlib.asynccontextmanager
async def a_coordinator(
    launch: Launch, *, lease_seconds: float = LEASE_SECONDS, row_check: RowCheck | None = None
) -> AsyncIterator["asyncio.Task[Ending | None]"]:
    """Serve a run for as long as the block lasts; yields the task that ends with the run."""
    stop = asyncio.Event()
    task = asyncio.create_task(
        serve(launch, stop=stop, lease_seconds=lease_seconds, row_check=row_check)
    )
    try:
        yield task
    finally:
        stop.set()
        await task
