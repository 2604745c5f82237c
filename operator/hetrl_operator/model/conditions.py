"""Conversion of findings to conditions, and of changed conditions to events."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetrl_api.job.conditions import Condition, ConditionStatus
from hetrl_api.job.status import JobStatus
from hetrl_operator.model.actions import Event
from hetrl_operator.model.reasons import ConditionType, EventReason, Reason

if TYPE_CHECKING:
    from datetime import datetime

MAX_MESSAGE_CHARACTERS = 8192
"""Limit of a message: well below the API's, so that a long list of reasons stays readable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One aspect of a job, as a policy found it."""

    type: str
    holds: bool
    reason: str
    message: str = ""


def condition(status: JobStatus, type_: str) -> Condition | None:
    """Return a condition of a status, if it was ever set."""
    return next((each for each in status.conditions if each.type == type_), None)


def holds(status: JobStatus, type_: str) -> bool:
    """Tell whether a condition of a status is True."""
    found = condition(status, type_)
    return found is not None and found.status is ConditionStatus.TRUE


def has_ended(status: JobStatus) -> bool:
    """Tell whether a job has completed or failed."""
    return any(holds(status, each) for each in (ConditionType.COMPLETE, ConditionType.FAILED))


def settled(
    findings: Iterable[Finding], *, before: JobStatus, generation: int, now: "datetime"
) -> tuple[Condition, ...]:
    """Return the conditions of these findings; unchanged ones keep their transition time."""
    return tuple(_settled(each, before, generation, now) for each in findings)


def _settled(finding: Finding, before: JobStatus, generation: int, now: "datetime") -> Condition:
    status = ConditionStatus.TRUE if finding.holds else ConditionStatus.FALSE
    known = condition(before, finding.type)
    unchanged = known is not None and known.status is status
    return Condition(
        type=finding.type,
        status=status,
        reason=finding.reason,
        message=finding.message[:MAX_MESSAGE_CHARACTERS],
        last_transition_time=known.last_transition_time if known and unchanged else now,
        observed_generation=generation,
    )


_ANNOUNCED: dict[tuple[str, bool, str], tuple[str, bool]] = {
    (ConditionType.ACCEPTED, False, Reason.INVALID_SPEC): (EventReason.INVALID_SPEC, True),
    (ConditionType.PLANNED, False, Reason.PLANNING): (EventReason.PLAN_STARTED, False),
    (ConditionType.PLANNED, True, Reason.PLAN_READY): (EventReason.PLAN_SUCCEEDED, False),
    (ConditionType.PLANNED, False, Reason.INFEASIBLE): (EventReason.PLAN_INFEASIBLE, True),
    (ConditionType.PLANNED, False, Reason.INSUFFICIENT_FREE_GPUS): (
        EventReason.PLAN_INFEASIBLE,
        True,
    ),
    (ConditionType.PLANNED, False, Reason.PLAN_NOT_FOUND): (EventReason.PLAN_INFEASIBLE, True),
    (ConditionType.PLANNED, False, Reason.PLAN_DOES_NOT_FIT): (EventReason.PLAN_INFEASIBLE, True),
    (ConditionType.PLANNED, False, Reason.PLANNER_FAILED): (EventReason.PLAN_INFEASIBLE, True),
    (ConditionType.PLANNED, False, Reason.SOLVER_TIMEOUT): (EventReason.PLAN_INFEASIBLE, True),
    (ConditionType.QUOTA_RESERVED, False, Reason.WAITING_FOR_QUOTA): (EventReason.QUEUED, False),
    (ConditionType.QUOTA_RESERVED, True, Reason.ADMITTED): (EventReason.ADMITTED, False),
    (ConditionType.QUOTA_RESERVED, False, Reason.PREEMPTED): (EventReason.EVICTED, True),
    (ConditionType.QUOTA_RESERVED, False, Reason.EVICTED): (EventReason.EVICTED, True),
    (ConditionType.QUOTA_RESERVED, False, Reason.DEACTIVATED): (EventReason.EVICTED, True),
    (ConditionType.QUOTA_RESERVED, False, Reason.QUEUE_IGNORED): (EventReason.QUEUE_IGNORED, True),
    (ConditionType.RUNNING, True, Reason.TRAINING_IN_PROGRESS): (EventReason.RUNNING, False),
    (ConditionType.PROGRESSING, False, Reason.STALLED): (EventReason.STALLED, True),
    (ConditionType.SUSPENDED, False, Reason.SUSPENDING): (EventReason.CHECKPOINT_REQUESTED, False),
    (ConditionType.SUSPENDED, True, Reason.SUSPENDED): (EventReason.SUSPENDED, False),
    (ConditionType.SUSPENDED, False, Reason.RESUMED): (EventReason.RESUMED, False),
}
"""Event reason, and whether it is a warning, by condition type, value and reason."""


def announcements(before: JobStatus, after: tuple[Condition, ...]) -> tuple[Event, ...]:
    """Return the events for conditions that changed since the written status."""
    found = []
    for each in after:
        known = condition(before, each.type)
        if known and (known.status, known.reason) == (each.status, each.reason):
            continue
        event = _event(each)
        if event:
            found.append(event)
    return tuple(found)


def _event(each: Condition) -> Event | None:
    is_true = each.status is ConditionStatus.TRUE
    if each.type == ConditionType.COMPLETE and is_true:
        return Event(reason=EventReason.COMPLETED, message=each.message)
    if each.type == ConditionType.FAILED and is_true:
        text = f"{each.reason}: {each.message}"
        return Event(reason=EventReason.FAILED, message=text, is_warning=True)
    if each.type == ConditionType.RESOURCES_CREATED and each.reason in _REFUSED:
        return Event(reason=EventReason.FAILED_TO_APPLY, message=each.message, is_warning=True)
    announced = _ANNOUNCED.get((each.type, is_true, each.reason))
    if announced is None:
        return None
    reason, is_warning = announced
    return Event(reason=reason, message=each.message, is_warning=is_warning)


_REFUSED = {
    Reason.APPLY_FAILED,
    Reason.FORBIDDEN,
    Reason.QUOTA_EXCEEDED,
    Reason.CONFLICT,
    Reason.NAME_TAKEN,
}
