"""Restart policy of local processes: that of a StatefulSet, with a limit on restarts.

Pure: takes the times of past exits, returns a decision. The supervisor starts and stops.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hetrl_core.launch import TERMINAL_EXIT_CODE


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """How often a process may die, and how long it waits before it is started again."""

    max_restarts: int = 5
    """Within the window; one more death ends the run."""

    window_seconds: float = 600.0
    first_backoff_seconds: float = 0.5
    max_backoff_seconds: float = 15.0

    def describe(self) -> str:
        """Say the limit in words."""
        window = f" within {self.window_seconds:g} s" if math.isfinite(self.window_seconds) else ""
        return f"at most {self.max_restarts}{window}"

    def backoff_seconds(self, restarts: int) -> float:
        """Return the wait before the restart of that number, doubling from the first."""
        return min(self.max_backoff_seconds, self.first_backoff_seconds * 2.0 ** (restarts - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """One end of one process."""

    process: str
    code: int
    """As ``subprocess`` counts: negative for the signal that killed it."""

    last_line: str
    """The last line of its log; empty where there is none."""

    at_seconds: float
    """On a monotonic clock."""

    def __str__(self) -> str:
        if self.code < 0:
            # Its last line does not explain a signal.
            return f"{self.process} was killed by signal {-self.code}"
        return f"{self.process} ended with {self.code}: {self.last_line or 'no output'}"


@dataclass(frozen=True, slots=True)
class Succeeded:
    """A process, or every one of a run, has finished its work."""


@dataclass(frozen=True, slots=True)
class Restart:
    """Start it again after this wait."""

    after_seconds: float


@dataclass(frozen=True, slots=True)
class Failed:
    """The run cannot continue; the reason in words."""

    reason: str


Decision = Succeeded | Restart | Failed


def after_exit(exits: Sequence[Exit], policy: RestartPolicy) -> Decision:
    """Decide what to do after the exits so far that share a limit, the newest last."""
    newest = exits[-1]
    if newest.code == 0:
        return Succeeded()
    if newest.code == TERMINAL_EXIT_CODE:
        return Failed(newest.last_line or f"{newest.process} gave up without a reason")
    recent = [
        each
        for each in exits
        if each.code != 0 and newest.at_seconds - each.at_seconds <= policy.window_seconds
    ]
    if len(recent) > policy.max_restarts:
        return Failed(f"{newest}; restarts are used up ({policy.describe()})")
    return Restart(policy.backoff_seconds(len(recent)))
