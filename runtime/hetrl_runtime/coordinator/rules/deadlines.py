"""Deadlines of a run: when it fails, and the reason. Every wait of a run has one.

Pure: callers pass times, in seconds of any steady clock.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from hetrl_runtime.wire.values import Ending

_SLOW_STEPS = 20
"""A step is stuck when it takes so many times longer than the longest before it."""

STARTUP_DEADLINE_EXCEEDED = "StartupDeadlineExceeded"
TRAINER_FAILED = "TrainerFailed"
ROLLOUT_FAILED = "RolloutFailed"
INFERENCE_FAILED = "InferenceFailed"
DATA_CHANGED = "DataChanged"
DATA_INVALID = "DataInvalid"
TRACES_UNAVAILABLE = "TracesUnavailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignsOfLife:
    """Times of the last events; None: not yet."""

    started_at: float
    trainer_seen_at: float | None = None
    workers_seen_at: float | None = None
    inference_seen_at: float | None = None
    inference_needed_since: float | None = None
    """Since when rollouts wait for answers of inference workers; None: they do not."""

    batch_out_since: float | None = None
    """Since when the trainer has had a batch; None while it has none."""

    accepted_at: float | None = None
    """When a trajectory was accepted, or could be again: a trainer registered or committed."""

    longest_step_seconds: float = 0.0


def verdict(signs: SignsOfLife, *, now: float, deadline_seconds: float) -> Ending | None:
    """Return why a run must be given up now, or None."""
    return (
        _missing(signs, now=now, deadline_seconds=deadline_seconds)
        or _gone(signs, now=now, deadline_seconds=deadline_seconds)
        or _stuck(signs, now=now, deadline_seconds=deadline_seconds)
    )


def _missing(signs: SignsOfLife, *, now: float, deadline_seconds: float) -> Ending | None:
    missing = [
        each.name
        for each in _needed(signs)
        if each.seen_at is None and now - each.since > deadline_seconds
    ]
    if not missing:
        return None
    return Ending(
        reason=STARTUP_DEADLINE_EXCEEDED,
        message=f"{' and '.join(missing)} did not register within {deadline_seconds:g} s",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Needed:
    """A process that a run needs."""

    reason: str
    """The reason of the run's failure without it."""

    name: str
    since: float
    """When the run began to need it."""

    seen_at: float | None


def _needed(signs: SignsOfLife) -> Iterator[_Needed]:
    for reason, name, since, seen_at in (
        (TRAINER_FAILED, "the trainer", signs.started_at, signs.trainer_seen_at),
        (ROLLOUT_FAILED, "any rollout worker", signs.started_at, signs.workers_seen_at),
        (
            INFERENCE_FAILED,
            "any inference worker",
            signs.inference_needed_since,
            signs.inference_seen_at,
        ),
    ):
        if since is not None:
            yield _Needed(reason=reason, name=name, since=since, seen_at=seen_at)


def _gone(signs: SignsOfLife, *, now: float, deadline_seconds: float) -> Ending | None:
    for each in _needed(signs):
        silent_seconds = now - max(each.seen_at or 0.0, each.since)
        if each.seen_at is not None and silent_seconds > deadline_seconds:
            return Ending(
                reason=each.reason,
                message=f"nothing was heard of {each.name} for {silent_seconds:.0f} s, "
                f"the limit is {deadline_seconds:.0f} s",
            )
    return None


def _stuck(signs: SignsOfLife, *, now: float, deadline_seconds: float) -> Ending | None:
    limit = max(deadline_seconds, _SLOW_STEPS * signs.longest_step_seconds)
    if signs.batch_out_since is not None:
        if now - signs.batch_out_since > limit:
            return Ending(
                reason=TRAINER_FAILED,
                message=f"the trainer has not finished its batch for {limit:.0f} s",
            )
    elif signs.accepted_at is not None and now - signs.accepted_at > limit:
        return Ending(
            reason=ROLLOUT_FAILED,
            message=f"no trajectory was accepted for {limit:.0f} s, and the trainer waits",
        )
    return None
