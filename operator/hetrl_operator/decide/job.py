"""One round for one job, as a table of contents of the policies."""

from typing import TYPE_CHECKING

from hetrl_api.job.planning import PlanningMode
from hetrl_api.job.status import JobStatus
from hetrl_operator.decide import terminal
from hetrl_operator.decide.kueue import queueing
from hetrl_operator.decide.kueue.queueing import is_ours
from hetrl_operator.decide.plan import auto
from hetrl_operator.decide.plan.active_plan import in_force
from hetrl_operator.decide.pods import running_roles
from hetrl_operator.decide.pods.finalizer import let_go
from hetrl_operator.decide.pods.restarts import unchanged
from hetrl_operator.decide.round import Round, acceptance, sets_of
from hetrl_operator.decide.running import active
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
from hetrl_operator.model.observed import Observed
from hetrl_operator.model.reasons import ConditionType, Reason
from hetrl_operator.settings import PodSettings

if TYPE_CHECKING:
    from datetime import datetime


def decide(seen: Observed, now: "datetime", settings: PodSettings) -> Decision:
    """Return what to do for a job now, and when to look again."""
    if seen.job.is_deleting and not seen.job.has_finalizer:
        return Decision()
    if not is_ours(seen.job):
        # Another controller runs it, but the finalizer is ours, as in a copy of an exported job.
        return Decision(actions=let_go(seen, now) if seen.job.is_deleting else ())
    round_ = _round(seen, now, settings)
    status = _status(seen, round_, now)
    wakes = [each for each in round_.wake_after if each is not None]
    return Decision(
        status=None if status == seen.job.status else WriteStatus(status=status),
        actions=round_.actions,
        events=(*announcements(seen.job.status, status.conditions), *round_.events),
        wake_after_seconds=max(0.0, min(wakes)) if wakes else None,
    )


def _round(seen: Observed, now: "datetime", settings: PodSettings) -> Round:
    if seen.job.is_deleting:
        return deleted(seen, now, settings)
    end = terminal.verdict(seen, sets_of(in_force(seen.job, seen.plans)), now)
    if end:
        return ended(seen, end, now, settings)
    wish = seen.job.wish
    if wish is None:
        return Round(findings=(acceptance(Reason.INVALID_SPEC, seen.job.problem),))
    accepted = acceptance(Reason.VALID, "")
    if wish.written.suspend:
        return suspended(seen, wish, accepted, now, settings)
    if queueing.waits(seen.job, seen.queueing):
        return queued(seen, wish, accepted, now, settings)
    return active(seen, wish, accepted, now, settings)


def _status(seen: Observed, round_: Round, now: "datetime") -> JobStatus:
    job, before = seen.job, seen.job.status
    restarted = round_.restarts or unchanged(before)
    now = now.replace(microsecond=0)
    conditions = settled(round_.findings, before=before, generation=job.generation, now=now)
    shown = pod_set_statuses(seen, round_.sets, round_.running)
    planning = job.wish.written.planning if job.wish else None
    only = planning is not None and planning.mode is PlanningMode.PLAN_ONLY
    is_over = any(
        each.type in {ConditionType.COMPLETE, ConditionType.FAILED} for each in round_.findings
    )
    return JobStatus(
        observed_generation=job.generation,
        phase=phase(round_.findings, plan_only=only),
        start_time=_start_time(before, round_, now),
        completion_time=(before.completion_time or now) if is_over else None,
        restarts=restarted.count,
        recent_restarts=restarted.records,
        conditions=conditions,
        plan=auto.plan_status(round_.plan) if round_.plan else None,
        last_replan=round_.replan or before.last_replan,
        progress=progress(seen, now),
        trainer=trainer_status(shown),
        rollout=rollout_status(job.name, shown, round_.sets),
        inference=inference_status(shown),
        pod_sets=shown,
    )


def _start_time(before: JobStatus, round_: Round, now: "datetime") -> "datetime | None":
    """Return when the pods were first created since the last resume; kept after the end."""
    if round_.running == running_roles.ALL_ROLES:
        return before.start_time or now
    suspended = any(each.type == ConditionType.SUSPENDED for each in round_.findings)
    return None if suspended else before.start_time
