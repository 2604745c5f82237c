"""The decision for one job, as a table of contents of the policies."""

from typing import TYPE_CHECKING

from hetrl_api.job.planning import PlanningMode
from hetrl_api.job.status import JobStatus
from hetrl_core.job.known_dimensions import similar_known_models
from hetrl_operator.decide import terminal
from hetrl_operator.decide.job_decision import JobDecision, acceptance
from hetrl_operator.decide.plan import auto
from hetrl_operator.decide.pods import running_roles
from hetrl_operator.decide.pods.finalizer import remove_finalizer
from hetrl_operator.decide.pods.restarts import unchanged
from hetrl_operator.decide.preflight import needs_preflight
from hetrl_operator.decide.running import active, checked
from hetrl_operator.decide.status.phase import phase
from hetrl_operator.decide.status.progress import progress
from hetrl_operator.decide.status.readiness import (
    inference_status,
    pod_set_statuses,
    rollout_status,
    trainer_status,
)
from hetrl_operator.decide.stopping import deleted, ended, queued, suspended
from hetrl_operator.model.actions import Decision, WriteStatus
from hetrl_operator.model.conditions import announcements, settled
from hetrl_operator.model.kueue.queueing import is_ours, waits
from hetrl_operator.model.observed import Observed, ParsedSpec
from hetrl_operator.model.reasons import ConditionType, Reason
from hetrl_operator.settings import PodSettings

if TYPE_CHECKING:
    from datetime import datetime


_NO_DIMENSIONS = (
    "spec.model.architecture is required where the chart's value preflight.enabled is false, "
    "unless the model is a Hub id of docs/known-models.md: plans are made of it"
)


def decide(seen: Observed, now: "datetime", settings: PodSettings) -> Decision:
    """Return what to do for a job now, and when to reconcile it again."""
    if seen.job.is_deleting and not seen.job.has_finalizer:
        return Decision()
    if not is_ours(seen.job):
        # Another controller runs it, but the finalizer is ours, as in a copy of an exported job.
        return Decision(actions=remove_finalizer(seen, now) if seen.job.is_deleting else ())
    result = _job_decision(seen, now, settings)
    status = _status(seen, result, now)
    wakes = [each for each in result.wake_after if each is not None]
    return Decision(
        status=None if status == seen.job.status else WriteStatus(status=status),
        actions=result.actions,
        events=(*announcements(seen.job.status, status.conditions), *result.events),
        wake_after_seconds=max(0.0, min(wakes)) if wakes else None,
    )


def _job_decision(seen: Observed, now: "datetime", settings: PodSettings) -> JobDecision:
    if seen.job.is_deleting:
        return deleted(seen, now, settings)
    end = terminal.verdict(seen, now)
    if end:
        return ended(seen, end, now, settings)
    parsed = seen.job.parsed
    if parsed is None:
        return JobDecision(findings=(acceptance(Reason.INVALID_SPEC, seen.job.problem),))
    accepted = acceptance(Reason.VALID, "")
    if parsed.written.suspend:
        return suspended(seen, parsed, accepted, now, settings)
    if needs_preflight(seen, parsed, settings) and auto.is_about_to_follow(seen, parsed, now):
        return checked(seen, parsed, accepted, now, settings)
    if parsed.spec.model.architecture is None:
        return JobDecision(findings=(acceptance(Reason.INVALID_SPEC, _no_dimensions(parsed)),))
    if waits(seen.job, seen.queueing):
        return queued(seen, parsed, accepted, now, settings)
    return active(seen, parsed, accepted, now, settings)


def _no_dimensions(parsed: ParsedSpec) -> str:
    return f"{_NO_DIMENSIONS}{similar_known_models(parsed.spec.model)}"


def _status(seen: Observed, result: JobDecision, now: "datetime") -> JobStatus:
    job, before = seen.job, seen.job.status
    restarted = result.restarts or unchanged(before)
    now = now.replace(microsecond=0)
    conditions = settled(result.findings, before=before, generation=job.generation, now=now)
    shown = pod_set_statuses(seen, result.sets, result.running)
    planning = job.parsed.written.planning if job.parsed else None
    only = planning is not None and planning.mode is PlanningMode.PLAN_ONLY
    is_over = any(
        each.type in {ConditionType.COMPLETE, ConditionType.FAILED} for each in result.findings
    )
    return JobStatus(
        observed_generation=job.generation,
        phase=phase(result.findings, plan_only=only),
        start_time=_start_time(before, result, now),
        completion_time=(before.completion_time or now) if is_over else None,
        restarts=restarted.count,
        recent_restarts=restarted.records,
        conditions=conditions,
        preflight=result.preflight or before.preflight,
        plan=auto.plan_status(result.plan) if result.plan else None,
        last_replan=result.replan or before.last_replan,
        progress=progress(seen, now),
        trainer=trainer_status(shown),
        rollout=rollout_status(job.name, shown, result.sets),
        inference=inference_status(shown),
        pod_sets=shown,
    )


def _start_time(before: JobStatus, result: JobDecision, now: "datetime") -> "datetime | None":
    """Return when the pods were first created since the last resume; kept after the end."""
    if result.running == running_roles.ALL_ROLES:
        return before.start_time or now
    suspended = any(each.type == ConditionType.SUSPENDED for each in result.findings)
    return None if suspended else before.start_time
