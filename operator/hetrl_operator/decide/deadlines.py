"""Deadlines of a job: for its GPUs, its start and its run, and what it waited for."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetrl_api.job.conditions import Condition, ConditionStatus
from hetrl_api.job.job import HetRLJobSpec
from hetrl_operator.model.conditions import condition, holds
from hetrl_operator.model.observed import Observed, PodSeen
from hetrl_operator.model.pods import names_and_reasons
from hetrl_operator.model.reasons import ConditionType, Reason

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrun:
    """A deadline that has passed."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Deadline:
    reason: str
    field: str
    limit_seconds: float
    passed_seconds: float
    waiting_for: str = ""

    @property
    def left_seconds(self) -> float:
        return self.limit_seconds - self.passed_seconds


def overrun(seen: Observed, now: "datetime") -> Overrun | None:
    """Return the deadline that has passed, if any."""
    for each in _deadlines(seen, now):
        if each.left_seconds <= 0:
            waited = f"; it waited for: {each.waiting_for}" if each.waiting_for else ""
            text = f"longer than spec.{each.field} ({each.limit_seconds:g} s){waited}"
            return Overrun(reason=each.reason, message=text)
    return None


def next_deadline_seconds(seen: Observed, now: "datetime") -> float | None:
    """Return the seconds until the next deadline passes; None if none runs."""
    return min((each.left_seconds for each in _deadlines(seen, now)), default=None)


def ttl_left_seconds(seen: Observed, now: "datetime") -> float | None:
    """Return the seconds after which a finished job is deleted; None: it is kept."""
    parsed, ended = seen.job.parsed, seen.job.status.completion_time
    ttl = parsed.written.ttl_seconds_after_finished if parsed else None
    if ttl is None or ended is None:
        return None
    return ttl - (now - ended).total_seconds()


def _deadlines(seen: Observed, now: "datetime") -> tuple[_Deadline, ...]:
    if seen.job.parsed is None:
        return ()
    written = seen.job.parsed.written
    found = (
        _unschedulable(seen, written, now),
        _startup(seen, written, now),
        _active(seen, written, now),
    )
    return tuple(each for each in found if each)


def _startup(seen: Observed, written: HetRLJobSpec, now: "datetime") -> _Deadline | None:
    """Count from when everything was created, or from when the job last stopped running."""
    status = seen.job.status
    created = condition(status, ConditionType.RESOURCES_CREATED)
    if created is None or created.status is not ConditionStatus.TRUE:
        return None
    if holds(status, ConditionType.RUNNING):
        return None
    running = condition(status, ConditionType.RUNNING)
    starts = [each.last_transition_time for each in (created, running) if each]
    if written.unschedulable_deadline_seconds is not None:
        if _waiting_pods(seen):
            return None
        # The wait for nodes has its own deadline; this one begins after it.
        starts += [pod.scheduled_at for pod in seen.pods if pod.scheduled_at]
    since = max(starts)
    if seen.full_machines.since:
        # A move from a full machine is no new start; otherwise a job that fits nowhere never fails.
        since = min(since, seen.full_machines.since)
    return _Deadline(
        reason=Reason.STARTUP_DEADLINE_EXCEEDED,
        field="startupDeadlineSeconds",
        limit_seconds=written.startup_deadline_seconds,
        passed_seconds=(now - since).total_seconds(),
        waiting_for=names_and_reasons(seen.pods),
    )


def _unschedulable(seen: Observed, written: HetRLJobSpec, now: "datetime") -> _Deadline | None:
    """Count from the request for a plan, or from when the first pod was unschedulable."""
    limit = written.unschedulable_deadline_seconds
    if limit is None:
        return None
    planned = condition(seen.job.status, ConditionType.PLANNED)
    waiting = _waiting_pods(seen)
    if waiting:
        times = [pod.unschedulable_since for pod in waiting if pod.unschedulable_since]
        since = min([*times, *((seen.full_machines.since,) if seen.full_machines.since else ())])
        waits_for = names_and_reasons(waiting)
    elif planned and planned.status is not ConditionStatus.TRUE and _lacks_gpus(planned):
        resumed = condition(seen.job.status, ConditionType.SUSPENDED)
        since = max(each.last_transition_time for each in (planned, resumed) if each)
        waits_for = f"a plan: {planned.message}"
    else:
        return None
    return _Deadline(
        reason=Reason.UNSCHEDULABLE_DEADLINE_EXCEEDED,
        field="unschedulableDeadlineSeconds",
        limit_seconds=limit,
        passed_seconds=(now - since).total_seconds(),
        waiting_for=waits_for,
    )


def _waiting_pods(seen: Observed) -> list[PodSeen]:
    return [pod for pod in seen.pods if pod.unschedulable_since and not pod.is_deleting]


def _lacks_gpus(planned: Condition) -> bool:
    """Tell whether a job waits for GPUs, and not for the planner or after a suspension."""
    return planned.reason not in {Reason.PLANNING, Reason.CHECKING, Reason.SUSPENDED}


def _active(seen: Observed, written: HetRLJobSpec, now: "datetime") -> _Deadline | None:
    start, limit = seen.job.status.start_time, written.active_deadline_seconds
    if start is None or limit is None:
        return None
    return _Deadline(
        reason=Reason.DEADLINE_EXCEEDED,
        field="activeDeadlineSeconds",
        limit_seconds=limit,
        passed_seconds=(now - start).total_seconds(),
    )
