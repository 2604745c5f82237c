"""Whether a job has ended, and why: by its own word, by its pods, or by a deadline.

The coordinator says twice how a run ended, in a report to us and by the end of its process,
so that a lost message never leaves a job hanging.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetrl_api.conditions import ConditionStatus
from hetrl_core.launch import TERMINAL_EXIT_CODE
from hetrl_core.task import Role
from hetrl_operator.decide.conditions import condition
from hetrl_operator.decide.deadlines import overrun
from hetrl_operator.decide.pods import names_and_reasons
from hetrl_operator.labels import ConditionType, Reason
from hetrl_operator.observed import Observed, PodSeen, ProgressSeen

if TYPE_CHECKING:
    from datetime import datetime

_FAILED = {
    Role.COORDINATOR: Reason.COORDINATOR_FAILED,
    Role.TRAINER: Reason.TRAINER_FAILED,
    Role.ROLLOUT: Reason.ROLLOUT_FAILED,
}
_REASON_FIRST = re.compile(r"^(?P<reason>[A-Z][A-Za-z0-9]{2,60}): (?P<message>.+)$", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a job ended."""

    succeeded: bool
    reason: str
    message: str


def verdict(seen: Observed, now: "datetime") -> Verdict | None:
    """Return how the job ended; None while it has not. The first verdict stands for ever."""
    written = _written(seen)
    if written or seen.job.wish is None:
        return written
    if seen.progress and seen.progress.finished:
        return _of_progress(seen.progress)
    if seen.job.wish.written.suspend:
        return None
    return _of_pods(seen) or _of_restarts(seen) or _of_deadlines(seen, now)


def restarts(seen: Observed) -> int:
    """Count the failures of trainer and coordinator containers, never fewer than before.

    The kubelet also restarts a trainer that ended well, until we have stopped its pod.
    """
    counted = sum(
        pod.restarts - (pod.termination is not None and pod.termination.exit_code == 0)
        for pod in seen.pods
        if pod.role is not Role.ROLLOUT
    )
    return max(seen.job.status.restarts or 0, counted)


def _written(seen: Observed) -> Verdict | None:
    for type_ in (ConditionType.COMPLETE, ConditionType.FAILED):
        found = condition(seen.job.status, type_)
        if found and found.status is ConditionStatus.TRUE:
            succeeded = type_ == ConditionType.COMPLETE
            return Verdict(succeeded=succeeded, reason=found.reason, message=found.message)
    return None


def _of_progress(progress: ProgressSeen) -> Verdict:
    succeeded = progress.outcome == "Succeeded"
    default = Reason.ALL_STEPS_DONE if succeeded else Reason.TRAINER_FAILED
    steps = f"{progress.step} of {progress.total_steps} steps are done"
    return Verdict(
        succeeded=succeeded,
        reason=progress.reason or default,
        message=progress.message or steps,
    )


def _of_pods(seen: Observed) -> Verdict | None:
    for pod in sorted(seen.pods, key=lambda each: each.name):
        end = pod.termination
        if end is None or pod.is_deleting:
            continue
        if end.exit_code == 0 and pod.role is Role.COORDINATOR:
            text = "the coordinator ended after the last step"
            return Verdict(succeeded=True, reason=Reason.ALL_STEPS_DONE, message=text)
        if end.exit_code == TERMINAL_EXIT_CODE:
            return _of_last_words(pod, end.message)
    return None


def _of_last_words(pod: PodSeen, words: str) -> Verdict:
    said = _last_line(words)
    match = _REASON_FIRST.match(said)
    reason = match["reason"] if match else _FAILED[pod.role]
    message = match["message"] if match else said or "it ended without saying why"
    return Verdict(succeeded=False, reason=reason, message=f"{pod.name}: {message}")


def _last_line(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return lines[-1].removeprefix("Error: ") if lines else ""


def _of_restarts(seen: Observed) -> Verdict | None:
    assert seen.job.wish
    limit = seen.job.wish.written.failure_policy.max_restarts
    count = restarts(seen)
    if count <= limit:
        return None
    return Verdict(
        succeeded=False,
        reason=Reason.BACKOFF_LIMIT_EXCEEDED,
        message=(
            f"{count} restarts, spec.failurePolicy.maxRestarts is {limit}: "
            + names_and_reasons(seen.pods)
        ),
    )


def _of_deadlines(seen: Observed, now: "datetime") -> Verdict | None:
    passed = overrun(seen, now)
    if passed is None:
        return None
    return Verdict(succeeded=False, reason=passed.reason, message=passed.message)
