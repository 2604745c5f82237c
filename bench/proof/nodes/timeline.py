"""The events of a proof: each observed state, and when it was observed."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from e2e.tenant import eventually


@dataclass(slots=True)
class Timeline:
    """Observed states with their seconds, printed as they come."""

    title: str
    lines: list[tuple[float, str]] = field(default_factory=list)
    _started: float = field(default_factory=time.monotonic)

    def say(self, what: str) -> None:
        """Add a state that is observed now."""
        seconds = time.monotonic() - self._started
        self.lines.append((seconds, what))
        print(f"{seconds:7.1f} s  {what}", flush=True)

    def wait(self, probe: Callable[[], object], *, what: str) -> None:
        """Wait for a state, and add it.

        Raises:
            AssertionError: it does not come within its deadline.
        """
        eventually(probe, what=what)
        self.say(what)
