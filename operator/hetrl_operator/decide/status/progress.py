"""Progress in the status: a coordinator's final report is written at once, others seldom."""

from typing import TYPE_CHECKING

from hetrl_api.job.status import Progress
from hetrl_operator.model.observed import Observed, ProgressSeen

if TYPE_CHECKING:
    from datetime import datetime

MOST_NOTICES = 8
SHORTEST_SECONDS = 15.0
"""Minimum time between two writes of progress: 1,000 jobs then make 67 writes a second."""


def progress(seen: Observed, now: "datetime") -> Progress | None:
    """Return the progress to show: what is written, until it is old enough."""
    written = seen.job.status.progress
    report = seen.progress
    if report is None or not _is_newer(report, written):
        return written
    if report.finished or _age_seconds(written, now) >= SHORTEST_SECONDS:
        return _shown(report, written)
    return written


def next_write_seconds(seen: Observed, now: "datetime") -> float | None:
    """Return when a report that waits may be written; None when none waits."""
    written = seen.job.status.progress
    if seen.progress is None or not _is_newer(seen.progress, written):
        return None
    return max(0.0, SHORTEST_SECONDS - _age_seconds(written, now))


def _is_newer(report: ProgressSeen, written: Progress | None) -> bool:
    if written is None or written.last_update_time is None:
        return True
    # Status keeps whole seconds.
    return (report.received_at - written.last_update_time).total_seconds() >= 1


def _age_seconds(written: Progress | None, now: "datetime") -> float:
    if written is None or written.last_update_time is None:
        return SHORTEST_SECONDS
    return (now - written.last_update_time).total_seconds()


def _shown(report: ProgressSeen, written: Progress | None) -> Progress:
    at = report.received_at.replace(microsecond=0)
    is_same_step = written is not None and written.step == report.step
    return Progress(
        step=report.step,
        total_steps=report.total_steps,
        samples_per_second=round(report.samples_per_second, 3),
        policy_version=report.policy_version,
        staleness_p95=round(report.staleness_p95, 3),
        reward=round(report.reward, 4),
        eta_seconds=round(report.eta_seconds, 1),
        notices=report.notices[:MOST_NOTICES],
        last_update_time=at,
        last_step_time=(written.last_step_time or at) if written and is_same_step else at,
    )
