"""A story as it is told: each thing that holds, and when it came to hold."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from e2e.tenant import eventually


@dataclass(slots=True)
class Told:
    """Lines of seconds and words, printed as they come."""

    title: str
    lines: list[tuple[float, str]] = field(default_factory=list)
    _started: float = field(default_factory=time.monotonic)

    def say(self, what: str) -> None:
        """Add what has come to hold."""
        seconds = time.monotonic() - self._started
        self.lines.append((seconds, what))
        print(f"{seconds:7.1f} s  {what}", flush=True)

    def wait(self, probe: Callable[[], object], *, what: str) -> None:
        """Wait until something holds, and add it.

        Raises:
            AssertionError: it does not within its deadline.
        """
        eventually(probe, what=what)
        self.say(what)
