"""Condition Progressing: a stalled job is reported, and nothing is restarted."""

from typing import TYPE_CHECKING

from hetrl_api.job.status import Progress
from hetrl_operator.model.conditions import Finding, condition, holds
from hetrl_operator.model.observed import Observed
from hetrl_operator.model.reasons import ConditionType, Reason

if TYPE_CHECKING:
    from datetime import datetime


def advance(seen: Observed, shown: Progress | None, now: "datetime") -> Finding:
    """Return condition Progressing of a job whose pods should run.

    Args:
        seen: the job.
        shown: the progress that its status will have.
        now: the time.
    """
    left = _left_seconds(seen, shown, now)
    if left is not None and left <= 0:
        assert seen.job.parsed
        limit = seen.job.parsed.written.progress_deadline_seconds
        waits = seen.progress.waiting_for if seen.progress else ""
        text = f"no step for spec.progressDeadlineSeconds ({limit} s)"
        text += f"; it waits for {waits}" if waits else ""
        return _finding(Reason.STALLED, text, is_advancing=False)
    if shown is None or shown.last_step_time is None or shown.step == 0:
        return _finding(Reason.WAITING_FOR_STEP, "the first step is not done yet")
    # Without the step's number: a status that changes with every step would never be at rest.
    return _finding(Reason.STEP_ADVANCED, "steps are being made")


def next_stall_seconds(seen: Observed, shown: Progress | None, now: "datetime") -> float | None:
    """Return when the next step will be overdue; None where none is expected."""
    left = _left_seconds(seen, shown, now)
    return left if left is not None and left > 0 else None


def _left_seconds(seen: Observed, shown: Progress | None, now: "datetime") -> float | None:
    """Count from the last step, or from when the job last began to run."""
    running = condition(seen.job.status, ConditionType.RUNNING)
    if running is None or seen.job.parsed is None:
        return None
    if not holds(seen.job.status, ConditionType.RUNNING):
        return None
    starts = [running.last_transition_time]
    if shown and shown.last_step_time:
        starts.append(shown.last_step_time)
    limit = seen.job.parsed.written.progress_deadline_seconds
    return limit - (now - max(starts)).total_seconds()


def _finding(reason: str, message: str, *, is_advancing: bool = True) -> Finding:
    return Finding(
        type=ConditionType.PROGRESSING, holds=is_advancing, reason=reason, message=message
    )
