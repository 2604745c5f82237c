"""The job's finalizer: it stays until the pods of a deleted job have stopped.

Without it the pods of a deleted job would be deleted at once: a trainer could not write its last
checkpoint, and its GPUs would be reserved for others while it still holds them.
"""

from typing import TYPE_CHECKING

from hetrl_operator.model.actions import Action, AddFinalizer, Event, RemoveFinalizer
from hetrl_operator.model.observed import Observed
from hetrl_operator.model.reasons import EventReason

if TYPE_CHECKING:
    from datetime import datetime


def add_finalizer(seen: Observed) -> tuple[Action, ...]:
    """Add the finalizer before a job holds GPUs or a place in a queue."""
    return () if seen.job.has_finalizer else (AddFinalizer(),)


def remove_finalizer(seen: Observed, now: "datetime") -> tuple[Action, ...]:
    """Remove the finalizer of a job that should have no pods, once it has none."""
    is_free = not seen.pods or is_overdue(seen, now)
    return (RemoveFinalizer(),) if seen.job.has_finalizer and is_free else ()


def is_overdue(seen: Observed, now: "datetime") -> bool:
    """Tell whether a deleted job's release deadline has passed."""
    left = left_seconds(seen, now)
    return left is not None and left <= 0


def left_seconds(seen: Observed, now: "datetime") -> float | None:
    """Return the seconds until a deleted job's release deadline; None if it is not deleted."""
    if seen.job.deleted_at is None or seen.job.parsed is None:
        return None
    limit = seen.job.parsed.written.release_deadline_seconds
    return limit - (now - seen.job.deleted_at).total_seconds()


def forced(seen: Observed, now: "datetime") -> tuple[Event, ...]:
    """Announce that the finalizer is removed though pods are left."""
    if not seen.pods or not seen.job.has_finalizer or not is_overdue(seen, now):
        return ()
    left = ", ".join(sorted(pod.name for pod in seen.pods))
    text = f"spec.releaseDeadlineSeconds is over; left behind: {left}"
    return (Event(reason=EventReason.RELEASE_FORCED, message=text, is_warning=True),)
