"""An end that lasts too long: the process is given up, and its pod or the other replica goes on.

Once one of kopf's main tasks has ended, whatever the reason, all others are to end. One that waits
for what will never come would keep a process that watches nothing, and its lease.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

log = logging.getLogger(__name__)

MOST_SECONDS = 20.0
"""Below the 30 s after which Kubernetes kills a pod that was told to stop."""


def give_up() -> None:
    """End the process as it is."""
    log.error("stopping has not ended within %g s: giving up", MOST_SECONDS)
    os._exit(1)


@dataclass(slots=True)
class GracefulShutdown:
    """Waits for the first of some tasks to end, and then only so long for all to be over."""

    give_up: Callable[[], None] = give_up
    seconds: float = MOST_SECONDS
    _timer: asyncio.TimerHandle | None = None

    def watch(self, tasks: Iterable["asyncio.Task[None]"]) -> None:
        """Begin to count when the first of these ends. Starts no task: kopf would end it."""
        for each in tasks:
            each.add_done_callback(self._begin)

    def over(self) -> None:
        """Take that everything has ended in time."""
        if self._timer:
            self._timer.cancel()

    def _begin(self, _: "asyncio.Task[None]") -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self.seconds, self.give_up)
