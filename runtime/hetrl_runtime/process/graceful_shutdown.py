"""Graceful shutdown of a worker's process: at the run's end, or on a signal.

The worker returns its leases and closes its resources first. Afterwards the process exits at once:
with torch loaded, a normal exit takes seconds.
"""

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Coroutine
from typing import Any, NoReturn

from hetrl_runtime.wire.values import Ending

SHUTDOWN_SECONDS = 8.0
"""How long a stopped worker may take to give its leases back and free its engine."""


async def until_stopped(work: Coroutine[Any, Any, Ending]) -> Ending:
    """Work until the run ends, and return how it ended; SIGTERM and SIGINT end the process."""
    working = asyncio.ensure_future(work)

    def stop() -> None:
        working.cancel()
        _leave_in_time()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    try:
        return await working
    except asyncio.CancelledError:
        # Everything is given back and closed. The interpreter, with torch in it, would take
        # seconds to go, and no timer runs while it does.
        _leave()


def _leave_in_time() -> None:
    """Leave even if a model is being loaded, which nothing interrupts."""
    timer = threading.Timer(SHUTDOWN_SECONDS, _leave)
    timer.daemon = True
    timer.start()


def _leave() -> NoReturn:
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(0)
