"""The decision about a job's preflight: a pod that checks models, data and reward before any GPU.

A report that the job passes is kept in its status, and is not asked for again while the checked
fields are the same. A report that it cannot work ends the job, with the report's reason.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetrl_api.job.planning import PlanningMode
from hetrl_api.job.status import PreflightStatus
from hetrl_api.job.to_core import architecture_of, from_architecture
from hetrl_core.job.architecture import ModelArchitecture, contradictions
from hetrl_core.preflight import MAX_NOTES, MODEL_INVALID, PreflightReport, report_from_json
from hetrl_operator.model.actions import Action, Apply, Delete
from hetrl_operator.model.conditions import Finding
from hetrl_operator.model.observed import Observed, ParsedSpec, PreflightPodSeen
from hetrl_operator.model.reasons import ConditionType, Reason
from hetrl_operator.render.preflight import Preflight, preflight_digest, preflight_objects
from hetrl_operator.settings import PodSettings

if TYPE_CHECKING:
    from datetime import datetime

MAX_ATTEMPTS = 3
"""Pods that may end without a report, as after an eviction, before the job fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checking:
    """A preflight that is not done."""

    finding: Finding
    status: PreflightStatus
    actions: tuple[Action, ...] = ()
    wake_after_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightFailure:
    """The end of a job that its preflight rejects."""

    reason: str
    message: str


def needs_preflight(seen: Observed, parsed: ParsedSpec, settings: PodSettings) -> bool:
    """Tell whether a job must be checked before it is planned.

    A job with pods is not: it runs, started by a release without preflights or with other fields.
    A job that is only planned needs no more than its model's dimensions.
    """
    if not settings.preflight or seen.pods:
        return False
    if parsed.written.planning.mode is PlanningMode.PLAN_ONLY and parsed.spec.model.architecture:
        return False
    return not _has_passed(seen, preflight_digest(parsed))


def checking(
    seen: Observed, parsed: ParsedSpec, now: "datetime", settings: PodSettings
) -> Checking:
    """Run the preflight's pod, and record its report."""
    digest = preflight_digest(parsed)
    status = _status(seen, digest)
    pod = seen.preflight_pod
    if pod is None:
        return _start(seen, parsed, status, settings)
    if pod.digest != digest or pod.owner_uid != seen.job.uid:
        return Checking(
            finding=_finding(f"pod {pod.name} of an earlier check is deleted first"),
            status=status,
            actions=_deletions(seen, why="it checks other fields"),
        )
    if not pod.has_ended:
        left = _seconds_left(pod, parsed, now)
        waits = f", which waits: {pod.waiting}" if pod.waiting else ""
        text = f"pod {pod.name} checks models, data and reward{waits}"
        return Checking(finding=_finding(text), status=status, wake_after_seconds=left)
    report = _report(pod)
    if report is None:
        again = status.model_copy(update={"attempts": status.attempts + 1})
        return Checking(
            finding=_finding(f"pod {pod.name} ended without a report: {_words(pod)}"),
            status=again,
            actions=_deletions(seen, why="it ended without a report"),
        )
    return Checking(
        finding=_finding("models, data and reward are as they must be"),
        status=_passed(status, report, parsed, now),
    )


def failure(seen: Observed, now: "datetime") -> PreflightFailure | None:
    """Return why a job's preflight ends the job; None if it does not."""
    pod, parsed = seen.preflight_pod, seen.job.parsed
    if pod is None or parsed is None or seen.pods or pod.digest != preflight_digest(parsed):
        return None
    if pod.owner_uid != seen.job.uid or pod.is_deleting:
        return None
    if not pod.has_ended:
        return _too_late(pod, parsed, now)
    report = _report(pod)
    return _rejected(report, parsed) if report else _lost(seen, pod)


def _too_late(
    pod: PreflightPodSeen, parsed: ParsedSpec, now: "datetime"
) -> PreflightFailure | None:
    if _seconds_left(pod, parsed, now) > 0:
        return None
    text = (
        f"pod {pod.name} has not ended {parsed.written.startup_deadline_seconds} s after its "
        f"creation (spec.startupDeadlineSeconds): {pod.waiting or 'it still runs'}"
    )
    return PreflightFailure(reason=Reason.PREFLIGHT_FAILED, message=text)


def _rejected(report: PreflightReport, parsed: ParsedSpec) -> PreflightFailure | None:
    """Return the fault in a report, or where the job's dimensions are not the model's."""
    if not report.passed:
        return PreflightFailure(reason=report.reason, message=report.message)
    # Dimensions of the table of known models end no job: those of config.json replace them.
    given, found = parsed.written.model.architecture, report.architecture
    odd = contradictions(architecture_of(given), found) if given and found else ()
    if not odd:
        return None
    text = f"{'; '.join(odd)}: correct spec.model.architecture, or leave it out"
    return PreflightFailure(reason=MODEL_INVALID, message=text)


def _lost(seen: Observed, pod: PreflightPodSeen) -> PreflightFailure | None:
    if _status(seen, pod.digest).attempts + 1 < MAX_ATTEMPTS:
        return None
    text = f"{MAX_ATTEMPTS} pods ended without a report, the last with: {_words(pod)}"
    return PreflightFailure(reason=Reason.PREFLIGHT_FAILED, message=text)


def clean_up(seen: Observed) -> tuple[Delete, ...]:
    """Delete the pod of a preflight whose job stops."""
    return _deletions(seen, why="the preflight is over")


def clean_up_if_passed(
    seen: Observed, parsed: ParsedSpec, settings: PodSettings
) -> tuple[Delete, ...]:
    """Delete the pod of a preflight unless its report is still needed."""
    return () if needs_preflight(seen, parsed, settings) else clean_up(seen)


def _start(
    seen: Observed, parsed: ParsedSpec, status: PreflightStatus, settings: PodSettings
) -> Checking:
    if not seen.machines:
        text = "no node of the job's pools is ready: the check runs on one of them"
        return Checking(finding=_finding(text), status=status)
    preflight = Preflight(job=seen.job, parsed=parsed, machines=seen.machines, settings=settings)
    actions = tuple(Apply(manifest=each) for each in preflight_objects(preflight))
    text = "a pod that checks models, data and reward is created"
    return Checking(finding=_finding(text), status=status, actions=actions)


def _deletions(seen: Observed, *, why: str) -> tuple[Delete, ...]:
    pod = seen.preflight_pod
    if pod is None or pod.is_deleting or pod.owner_uid != seen.job.uid:
        return ()
    config_maps = tuple(
        Delete(kind=each.kind, name=each.name, uid=each.uid, why=why)
        for each in seen.children
        if (each.kind, each.name) == ("ConfigMap", pod.name)
        and each.owner_uid == seen.job.uid
        and not each.is_deleting
    )
    return (Delete(kind="Pod", name=pod.name, uid=pod.uid, why=why), *config_maps)


def _has_passed(seen: Observed, digest: str) -> bool:
    known = seen.job.status.preflight
    return known is not None and known.digest == digest and known.passed_at is not None


def _status(seen: Observed, digest: str) -> PreflightStatus:
    known = seen.job.status.preflight
    return known if known and known.digest == digest else PreflightStatus(digest=digest)


def _passed(
    status: PreflightStatus, report: PreflightReport, parsed: ParsedSpec, now: "datetime"
) -> PreflightStatus:
    found = report.architecture
    return status.model_copy(
        update={
            "passed_at": now.replace(microsecond=0),
            "notes": (*_unlike_the_table(parsed, found), *report.notes)[:MAX_NOTES],
            "architecture": from_architecture(found) if found else None,
        }
    )


def _unlike_the_table(parsed: ParsedSpec, found: ModelArchitecture | None) -> tuple[str, ...]:
    """Say where a model that was planned by the table of known models has other dimensions."""
    planned = parsed.spec.model.architecture
    if not (parsed.dimensions_origin and planned and found):
        return ()
    odd = contradictions(planned, found, given_by="the table's ")
    if not odd:
        return ()
    model = parsed.spec.model.source
    return (
        f"{model} is not as in the table of known models, and is planned again: {'; '.join(odd)}",
    )


def _report(pod: PreflightPodSeen) -> PreflightReport | None:
    """Read a pod's report; None if its termination message is none, or has impossible values."""
    try:
        report = report_from_json(pod.message)
        if report.architecture:
            from_architecture(report.architecture)
    except ValueError:
        return None
    return report


def _words(pod: PreflightPodSeen) -> str:
    """Return the last line of a termination message that is no report."""
    lines = [line.strip() for line in pod.message.splitlines() if line.strip()]
    return lines[-1][:500] if lines else "no message"


def _seconds_left(pod: PreflightPodSeen, parsed: ParsedSpec, now: "datetime") -> float:
    passed = (now - pod.created_at).total_seconds()
    return parsed.written.startup_deadline_seconds - passed


def _finding(message: str) -> Finding:
    return Finding(type=ConditionType.PLANNED, holds=False, reason=Reason.CHECKING, message=message)
