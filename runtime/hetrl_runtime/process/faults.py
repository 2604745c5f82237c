"""Named points at which a process can be made to die, so that recovery from each can be tested.

``HETRL_DIE_AT=commit-forced:3`` kills the process with SIGKILL when it reaches that point for the
third time. Without the variable, a point costs a comparison. Names say what has happened by then;
at each point memory, disk and peers differ in what they know.
"""

import os
import signal
from contextlib import ContextDecorator
from enum import StrEnum, unique

DIE_AT = "HETRL_DIE_AT"


@unique
class Point(StrEnum):
    """A point that a process has just reached."""

    # In the coordinator
    LEASE_DECIDED = "lease-decided"
    LEASE_WRITTEN = "lease-written"
    DELIVERY_ACCEPTED = "delivery-accepted"
    DELIVERY_WRITTEN = "delivery-written"
    BATCH_CHOSEN = "batch-chosen"
    BATCH_SENT = "batch-sent"
    COMMIT_DECIDED = "commit-decided"
    COMMIT_WRITTEN = "commit-written"
    COMMIT_FORCED = "commit-forced"
    COMMIT_REPORTED = "commit-reported"
    EPOCH_DECIDED = "epoch-decided"
    EPOCH_WRITTEN = "epoch-written"
    EPOCH_REPLACED = "epoch-replaced"
    END_WRITTEN = "end-written"

    # In the trainer
    RESTORED = "restored"
    REGISTERED = "registered"
    BATCH_RECEIVED = "batch-received"
    VERSION_TRAINED = "version-trained"
    VERSION_PUBLISHED = "version-published"
    VERSION_COMMITTED = "version-committed"
    WEIGHTS_SENT = "weights-sent"
    CHECKPOINT_COPIED = "checkpoint-copied"
    CHECKPOINT_BEGUN = "checkpoint-begun"
    CHECKPOINT_MODEL_WRITTEN = "checkpoint-model-written"
    CHECKPOINT_WRITTEN = "checkpoint-written"
    CHECKPOINT_FLUSHED = "checkpoint-flushed"
    CHECKPOINT_RENAMED = "checkpoint-renamed"
    LAST_CHECKPOINT_DONE = "last-checkpoint-done"

    # In a rollout worker
    LEASE_RECEIVED = "lease-received"
    RESPONSE_SAMPLED = "response-sampled"
    RESPONSE_SCORED = "response-scored"
    RESPONSE_ACKNOWLEDGED = "response-acknowledged"
    WEIGHTS_FETCHED = "weights-fetched"
    WEIGHTS_LOADED = "weights-loaded"


def parsed(text: str) -> tuple[Point | None, int]:
    """Read ``point`` or ``point:number``; no point where nothing is asked for.

    Raises:
        ValueError: there is no such point, or the number is not one from 1 on.
    """
    if not text:
        return None, 0
    name, separator, number = text.partition(":")
    if name not in set(Point) or (separator and not number.isdecimal()) or number == "0":
        raise ValueError(f"{DIE_AT} must be one of {', '.join(Point)}, and :NUMBER, got {text!r}")
    return Point(name), int(number or 1)


_wanted, _left = parsed(os.environ.get(DIE_AT, ""))


def passing(point: Point) -> None:
    """Mark that a process has reached a point; kill it if it shall die there."""
    global _left  # noqa: PLW0603  # one process, one death
    if point is not _wanted:
        return
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), signal.SIGKILL)


class FaultPoints(ContextDecorator):
    """A point before a block or function, and one after it that an exception does not reach."""

    def __init__(self, *, before: Point | None = None, after: Point | None = None) -> None:
        self._before = before
        self._after = after

    def __enter__(self) -> None:
        if self._before:
            passing(self._before)

    def __exit__(self, kind: object, *_: object) -> None:
        if self._after and kind is None:
            passing(self._after)
