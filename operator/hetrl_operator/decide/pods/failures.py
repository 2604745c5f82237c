"""New failures of pods, and the responses of the job's failure policy.

A failure is new until a restart of its role is recorded after the pod's creation, or a restart of
the pod after the failure. The status keeps these records, so that each failure is handled and
counted once, also after a change of the leader.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetrl_api.job.lifecycle import FailureAction, FailurePolicy, FailureReason, FailureRule
from hetrl_api.job.status import JobStatus, Restart
from hetrl_core.launch import TERMINAL_EXIT_CODE
from hetrl_core.plan.pod_sets import PodSet
from hetrl_core.task import Role
from hetrl_operator.model.observed import Observed, PodSeen
from hetrl_operator.model.pods import has_failed, num_wanted, present, started_at

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failure without a recorded response."""

    pod: PodSeen
    at: "datetime"
    exit_code: int | None = None
    """The exit code; None if the whole pod was lost."""

    reason: str
    """In Kubernetes' words, or PodLost."""

    words: str = ""
    """The last output of the process."""

    def __str__(self) -> str:
        ended = self.reason if self.exit_code is None else f"ended with {self.exit_code}"
        last = self.words.strip().splitlines()[-1:]
        return ", ".join([f"{self.pod.name} {ended}", *last])


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The failure policy's response to a failure."""

    failure: Failure
    action: FailureAction
    rule: FailureRule | None = None
    name: str = ""
    """The name or index of the rule; empty if no rule matched."""


def failures(seen: Observed, sets: tuple[PodSet, ...]) -> tuple[Failure, ...]:
    """Return the new failures in the order of their times."""
    pods = tuple(present(seen.pods, sets).values())
    found = [*(_ended(pod) for pod in pods), *_lost(pods, sets)]
    news = (each for each in found if each and not _is_known(each, seen.job.status))
    return tuple(sorted(news, key=lambda each: (each.at, each.pod.name)))


def response(failure: Failure, policy: FailurePolicy, *, num_trainers: int) -> Response:
    """Return the action of the first matching rule, or the default of the pod's role."""
    for number, rule in enumerate(policy.rules_by_role or ()):
        if _fits(rule, failure):
            name = rule.name or f"rules[{number}]"
            action = _as_possible(rule.action, failure.pod.role, num_trainers=num_trainers)
            return Response(failure=failure, action=action, rule=rule, name=name)
    if failure.exit_code == TERMINAL_EXIT_CODE:
        return Response(failure=failure, action=FailureAction.FAIL)
    action = _as_possible(FailureAction.RESTART_POD, failure.pod.role, num_trainers=num_trainers)
    return Response(failure=failure, action=action)


def _as_possible(action: FailureAction, role: Role, *, num_trainers: int) -> FailureAction:
    """Return the action itself, or the restart of the role for a gang of trainers.

    Data-parallel trainers form their process group once: a new pod cannot join it, and the others
    cannot continue without it. A single trainer's container restarts in place.
    """
    is_gang = role is Role.TRAINER and num_trainers > 1
    if action is FailureAction.RESTART_POD and is_gang:
        return FailureAction.RESTART_ROLE
    return action


def _fits(rule: FailureRule, failure: Failure) -> bool:
    if str(rule.role) != str(failure.pod.role):
        return False
    if rule.on_exit_codes and failure.exit_code not in rule.on_exit_codes:
        return False
    return not rule.on_reasons or failure.reason in rule.on_reasons


def _ended(pod: PodSeen) -> Failure | None:
    if not has_failed(pod) or pod.termination is None:
        return None
    end = pod.termination
    return Failure(
        pod=pod, at=end.at, exit_code=end.exit_code, reason=end.reason, words=end.message
    )


def _lost(pods: tuple[PodSeen, ...], sets: tuple[PodSet, ...]) -> tuple[Failure, ...]:
    """Return a failure for each gated trainer that replaces a lost member of a running gang."""
    if num_wanted(sets, Role.TRAINER) == 1:
        return ()
    trainers = [pod for pod in pods if pod.role is Role.TRAINER]
    started = [started_at(pod) for pod in trainers if not pod.is_gated]
    if not started:
        return ()
    return tuple(
        Failure(pod=pod, at=pod.created_at, reason=FailureReason.POD_LOST)
        for pod in trainers
        if pod.is_gated and pod.created_at > min(started)
    )


def _is_known(failure: Failure, status: JobStatus) -> bool:
    if status.restarts and not status.recent_restarts:
        # An earlier release counted restarts without records; the restart of a ready pod counted.
        return failure.pod.is_ready
    return any(_covers(each, failure) for each in status.recent_restarts)


def _covers(record: Restart, failure: Failure) -> bool:
    if record.action == FailureAction.RESTART_POD:
        return record.pod == failure.pod.name and record.failed_at >= failure.at
    is_meant = record.action == FailureAction.RESTART_JOB or record.role == failure.pod.role
    return is_meant and started_at(failure.pod) < record.time
