"""When the planner is asked again after it ended without an answer.

What it said of a job, that nothing fits, stands until the job or the fleet changes; a process that
died said nothing, and may do better the next time.
"""

from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING

from hetrl_operator.model.observed import Observed, PlannerError

if TYPE_CHECKING:
    from datetime import datetime

FIRST_SECONDS = 15.0
MOST_SECONDS = 1800.0
"""Ours. A search that hangs keeps a worker for its whole time while other jobs wait, so the pauses
grow well beyond that."""

JITTER = 0.2
"""Jobs that failed together, as with the operator's pod, do not come back together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How long the planner is not asked again."""

    until: "datetime"
    left_seconds: float
    num_failures: int

    def __str__(self) -> str:
        return f"failure {self.num_failures} in a row, tried again at {self.until:%H:%M:%S} UTC"


def backoff(seen: Observed, now: "datetime") -> Backoff | None:
    """Return the pause that a failed search is in; None where the planner may be asked."""
    planning = seen.planning
    if planning.answered_at is None or not isinstance(planning.answer, PlannerError):
        return None
    seconds = backoff_seconds(seen.job.uid, planning.num_failures)
    until = planning.answered_at + timedelta(seconds=seconds)
    left = (until - now).total_seconds()
    if left <= 0:
        return None
    return Backoff(until=until, left_seconds=left, num_failures=planning.num_failures)


def backoff_seconds(uid: str, num_failures: int) -> float:
    """Return how long is waited after so many failures in a row, 1 or more.

    It doubles with each. The jitter follows from the job, so that every look at it comes to the
    same time.
    """
    # The exponent is bounded, so that no number overflows.
    seconds = min(MOST_SECONDS, FIRST_SECONDS * 2.0 ** min(num_failures - 1, 30))
    digest = sha256(f"{uid}/{num_failures}".encode()).digest()
    share = int.from_bytes(digest[:8], "big") / 2**64
    return seconds * (1 + JITTER * (2 * share - 1))
