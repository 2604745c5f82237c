"""The backoff of searches that ended without an answer.

An answer that no plan fits holds until the job or the fleet changes. A planner process that died
gave no answer, and may succeed the next time.
"""

from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING

from hetrl_operator.model.observed import Observed
from hetrl_operator.model.planning import PlannerError

if TYPE_CHECKING:
    from datetime import datetime

FIRST_SECONDS = 15.0
MOST_SECONDS = 1800.0
"""Limit of the backoff; our choice. A search that hangs blocks a worker for its whole time while
other jobs wait, so the backoff grows well beyond that."""

JITTER = 0.2
"""Jitter: jobs that failed together do not retry together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """The time until the planner is tried again."""

    until: "datetime"
    left_seconds: float
    num_failures: int

    def __str__(self) -> str:
        return f"failure {self.num_failures} in a row, tried again at {self.until:%H:%M:%S} UTC"


def backoff(seen: Observed, now: "datetime") -> Backoff | None:
    """Return the backoff of a failed search; None if the planner may be tried now."""
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
    """Return the backoff after a number of consecutive failures, at least 1.

    It doubles with each failure. The jitter is a function of the job, so that every reconcile
    computes the same time.
    """
    # The exponent is bounded, so that no number overflows.
    seconds = min(MOST_SECONDS, FIRST_SECONDS * 2.0 ** min(num_failures - 1, 30))
    digest = sha256(f"{uid}/{num_failures}".encode()).digest()
    share = int.from_bytes(digest[:8], "big") / 2**64
    return seconds * (1 + JITTER * (2 * share - 1))
