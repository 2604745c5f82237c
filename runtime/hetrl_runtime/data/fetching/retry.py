"""Retries of a fetch of remote files, until it succeeds, times out or is stopped.

``hub`` and ``store`` make the requests.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hetrl_runtime.data.prompt import Unusable

log = logging.getLogger(__name__)

_PAUSE_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Reason of a failed fetch."""

    message: str
    may_pass: bool
    """Whether a retry may succeed."""


def fetch_with_retries(
    ask: Callable[[], Path | Failed], *, timeout_seconds: float, stop: threading.Event
) -> Path | Unusable:
    """Return where the files are now, or why they cannot be fetched.

    Args:
        ask: tries once.
        timeout_seconds: how long to try.
        stop: set when the answer is no longer needed.
    """
    give_up_at = time.monotonic() + timeout_seconds
    while True:
        found = ask()
        if isinstance(found, Path):
            return found
        left_seconds = give_up_at - time.monotonic()
        if not found.may_pass or left_seconds <= 0:
            return Unusable(message=found.message)
        log.warning("fetch retried: %s", found.message)
        if stop.wait(min(_PAUSE_SECONDS, left_seconds)):
            return Unusable(message=f"stopped; {found.message}")
