"""The verdict on a job: whether it has ended, and why: by its report, its pods or a deadline.

The coordinator reports the end of a run twice, in a message and by its exit code, so that a lost
message never leaves a job hanging.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetrl_api.job.conditions import ConditionStatus
from hetrl_api.job.lifecycle import FailureAction
from hetrl_core.plan.pod_sets import PodSet
from hetrl_core.task import Role
from hetrl_operator.decide import preflight
from hetrl_operator.decide.deadlines import overrun
from hetrl_operator.decide.pods.failures import Failure, Response
from hetrl_operator.decide.pods.restarts import excess, responses, restarts
from hetrl_operator.model.conditions import condition
from hetrl_operator.model.kueue.queueing import waits
from hetrl_operator.model.observed import Observed, ProgressSeen
from hetrl_operator.model.pods import names_and_reasons
from hetrl_operator.model.reasons import ConditionType, Reason

if TYPE_CHECKING:
    from datetime import datetime

_FAILED = {
    Role.COORDINATOR: Reason.COORDINATOR_FAILED,
    Role.TRAINER: Reason.TRAINER_FAILED,
    Role.ROLLOUT: Reason.ROLLOUT_FAILED,
    Role.INFERENCE: Reason.INFERENCE_FAILED,
}
_REASON_FIRST = re.compile(r"^(?P<reason>[A-Z][A-Za-z0-9]{2,60}): (?P<message>.+)$", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The end of a job."""

    succeeded: bool
    reason: str
    message: str


def verdict(seen: Observed, now: "datetime") -> Verdict | None:
    """Return how the job ended; None while it has not. The first verdict is final."""
    written = _written(seen)
    if written or seen.job.parsed is None:
        return written
    if seen.progress and seen.progress.finished:
        return _of_progress(seen.progress)
    if seen.job.parsed.written.suspend:
        return None
    if waits(seen.job, seen.queueing):
        return _of_preflight(seen, now)
    return (
        _of_preflight(seen, now)
        or _of_coordinator(seen)
        or _of_rules(responses(seen, seen.pod_sets))
        or _of_limits(seen, seen.pod_sets, now)
        or _of_deadlines(seen, now)
    )


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


def _of_preflight(seen: Observed, now: "datetime") -> Verdict | None:
    found = preflight.failure(seen, now)
    return Verdict(succeeded=False, reason=found.reason, message=found.message) if found else None


def _of_coordinator(seen: Observed) -> Verdict | None:
    for pod in seen.pods:
        ended = pod.termination is not None and pod.termination.exit_code == 0
        if ended and pod.role is Role.COORDINATOR and not pod.is_deleting:
            text = "the coordinator ended after the last step"
            return Verdict(succeeded=True, reason=Reason.ALL_STEPS_DONE, message=text)
    return None


def _of_rules(news: tuple[Response, ...]) -> Verdict | None:
    for each in news:
        if each.action is FailureAction.FAIL:
            return _of_rule(each) if each.rule else _of_last_words(each.failure)
    return None


def _of_rule(each: Response) -> Verdict:
    text = f"{each.name} of spec.failurePolicy.rules: {each.failure}"
    return Verdict(succeeded=False, reason=Reason.FAILURE_POLICY, message=text)


def _of_last_words(failure: Failure) -> Verdict:
    said = _last_line(failure.words)
    match = _REASON_FIRST.match(said)
    reason = match["reason"] if match else _FAILED[failure.pod.role]
    message = match["message"] if match else said or "it ended without saying why"
    return Verdict(succeeded=False, reason=reason, message=f"{failure.pod.name}: {message}")


def _last_line(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return lines[-1].removeprefix("Error: ") if lines else ""


def _of_limits(seen: Observed, sets: tuple[PodSet, ...], now: "datetime") -> Verdict | None:
    passed = excess(seen, restarts(seen, sets, now), now)
    if not passed:
        return None
    return Verdict(
        succeeded=False,
        reason=Reason.BACKOFF_LIMIT_EXCEEDED,
        message=f"{passed}: {names_and_reasons(seen.pods)}",
    )


def _of_deadlines(seen: Observed, now: "datetime") -> Verdict | None:
    passed = overrun(seen, now)
    if passed is None:
        return None
    return Verdict(succeeded=False, reason=passed.reason, message=passed.message)
