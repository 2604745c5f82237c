"""The time limit of a graceful shutdown: a process that exceeds it exits at once.

Once one of kopf's main tasks has ended, all others must end. A task that hangs would keep a process
alive that watches nothing and holds the lease.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

log = logging.getLogger(__name__)

MOST_SECONDS = 20.0
"""Time limit of a shutdown: below the 30 s after which Kubernetes kills a terminating pod."""


def give_up() -> None:
    """Exit the process at once."""
    log.error("stopping has not ended within %g s: giving up", MOST_SECONDS)
    os._exit(1)


@dataclass(slots=True)
class GracefulShutdown:
    """A timer that starts with the first ended task and exits the process if others still run."""

    give_up: Callable[[], None] = give_up
    seconds: float = MOST_SECONDS
    _timer: asyncio.TimerHandle | None = None

    def watch(self, tasks: Iterable["asyncio.Task[None]"]) -> None:
        """Start the timer when the first task ends. This starts no task: kopf would end it."""
        for each in tasks:
            each.add_done_callback(self._begin)

    def over(self) -> None:
        """Stop the timer: all tasks have ended in time."""
        if self._timer:
            self._timer.cancel()

    def _begin(self, _: "asyncio.Task[None]") -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self.seconds, self.give_up)
