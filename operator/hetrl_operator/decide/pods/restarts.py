"""Restarts after failures: recorded, counted and limited.

A record has the time of its decision. ``replacements`` replaces pods of that role that are older. A
record is only written if its time differs from the pods' times, which have whole seconds.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from hetrl_api.job.lifecycle import MOST_WITHIN_A_WINDOW, FailureAction, FailurePolicy
from hetrl_api.job.status import JobStatus, Restart
from hetrl_core.plan.pod_sets import PodSet
from hetrl_core.task import Role
from hetrl_operator.decide.pods.failures import Response, failures, response
from hetrl_operator.model.actions import Event
from hetrl_operator.model.observed import Observed
from hetrl_operator.model.pods import WORKERS, num_wanted, present, started_at
from hetrl_operator.model.reasons import EventReason

if TYPE_CHECKING:
    from datetime import datetime

MOST_CHARACTERS = 512
"""Limit of a record's reason, so that a hundred records stay small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarts:
    """The records of a job, including those of this reconcile."""

    records: tuple[Restart, ...] = ()
    new: tuple[Restart, ...] = ()
    count: int = 0
    """All restarts that count towards ``spec.failurePolicy.maxRestarts``."""

    wake_after_seconds: float | None = None
    """Delay until pending records can be written; None: none is pending."""

    @property
    def is_pending(self) -> bool:
        """Whether a failure waits for its record."""
        return self.wake_after_seconds is not None


def responses(seen: Observed, sets: tuple[PodSet, ...]) -> tuple[Response, ...]:
    """Return the responses to the new failures."""
    if seen.job.parsed is None:
        return ()
    policy = seen.job.parsed.written.failure_policy
    trainers = num_wanted(sets, Role.TRAINER)
    return tuple(response(each, policy, num_trainers=trainers) for each in failures(seen, sets))


def unchanged(status: JobStatus) -> Restarts:
    """Return the status's records."""
    return Restarts(records=status.recent_restarts, count=status.restarts or 0)


def restarts(seen: Observed, sets: tuple[PodSet, ...], now: "datetime") -> Restarts:
    """Return the records, with a new one for each role or pod that must restart."""
    known = unchanged(seen.job.status)
    news = responses(seen, sets)
    if not news:
        return known
    now = now.replace(microsecond=0)
    if any(started_at(pod) >= now for pod in present(seen.pods, sets).values()):
        return Restarts(records=known.records, count=known.count, wake_after_seconds=1.0)
    new = _records(news, now)
    return Restarts(
        records=(*known.records, *new)[-MOST_WITHIN_A_WINDOW:],
        new=new,
        count=known.count + sum(_is_counted(each) for each in _first_of_each(news)),
    )


def excess(seen: Observed, found: Restarts, now: "datetime") -> str:
    """Say which limit of the failure policy is exceeded; empty if none is."""
    assert seen.job.parsed
    policy = seen.job.parsed.written.failure_policy
    own_limits = {
        rule.name or f"rules[{number}]": rule.max_restarts
        for number, rule in enumerate(policy.rules_by_role or ())
        if rule.max_restarts is not None
    }
    for name, limit in own_limits.items():
        count = sum(each.rule == name for each in _within(found.records, policy, now))
        if count > limit:
            return f"{count} restarts by {name}, its maxRestarts is {limit}"
    if policy.window_seconds is None:
        count, window = found.count, ""
    else:
        counted = [
            each
            for each in _within(found.records, policy, now)
            if each.rule not in own_limits and counts(each.role, each.action)
        ]
        count, window = len(counted), f" within {policy.window_seconds} s"
    if count <= policy.max_restarts:
        return ""
    return f"{count} restarts{window}, spec.failurePolicy.maxRestarts is {policy.max_restarts}"


def events(found: Restarts) -> tuple[Event, ...]:
    """Announce the new restarts of more than a pod."""
    reasons = {
        FailureAction.RESTART_ROLE: EventReason.ROLE_RESTARTED,
        FailureAction.REPLAN: EventReason.ROLE_RESTARTED,
        FailureAction.RESTART_JOB: EventReason.JOB_RESTARTED,
    }
    announced = []
    for each in found.new:
        reason = reasons.get(FailureAction(each.action))
        if reason == EventReason.ROLE_RESTARTED and each.role == Role.TRAINER:
            reason = EventReason.TRAINER_RESTARTED
        if reason:
            text = f"{each.action} of {each.role}: {each.reason}"
            announced.append(Event(reason=reason, message=text, is_warning=True))
    return tuple(announced)


def counts(role: str, action: str) -> bool:
    """Tell whether a restart counts towards the policy's limit: workers come and go."""
    return role not in WORKERS or action in {FailureAction.RESTART_JOB, FailureAction.REPLAN}


def _within(
    records: tuple[Restart, ...], policy: FailurePolicy, now: "datetime"
) -> tuple[Restart, ...]:
    if policy.window_seconds is None:
        return records
    since = now - timedelta(seconds=policy.window_seconds)
    return tuple(each for each in records if each.time > since)


def _is_counted(each: Response) -> bool:
    has_own_limit = each.rule is not None and each.rule.max_restarts is not None
    return not has_own_limit and counts(each.failure.pod.role, each.action)


def _first_of_each(news: tuple[Response, ...]) -> tuple[Response, ...]:
    """Return the first response for each pod or role that restarts."""
    whole = [each for each in news if each.action is FailureAction.RESTART_JOB]
    if whole:
        return (whole[0],)
    first: dict[tuple[str, str], Response] = {}
    for each in news:
        is_pod = each.action is FailureAction.RESTART_POD
        key = (each.action, each.failure.pod.name if is_pod else each.failure.pod.role)
        first.setdefault(key, each)
    return tuple(first.values())


def _records(news: tuple[Response, ...], now: "datetime") -> tuple[Restart, ...]:
    return tuple(
        Restart(
            time=now,
            role=each.failure.pod.role,
            action=each.action,
            pod=each.failure.pod.name,
            failed_at=each.failure.at,
            reason=str(each.failure)[:MOST_CHARACTERS],
            rule=each.name or None,
        )
        for each in _first_of_each(news)
        if _is_kept(each)
    )


def _is_kept(each: Response) -> bool:
    """Tell whether a restart needs a record: a worker's container may restart without end."""
    if each.action is not FailureAction.RESTART_POD:
        return True
    return _is_counted(each) or (each.rule is not None and each.rule.max_restarts is not None)
