"""The decision for a job that should run: it is planned, deployed and watched.

``stopping`` decides about jobs that are queued, suspended, deleted or ended.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from hetrl_api.job.planning import PlanningMode
from hetrl_core.plan.pod_sets import PodSet
from hetrl_operator.decide import preflight
from hetrl_operator.decide.deadlines import next_deadline_seconds
from hetrl_operator.decide.job_decision import JobDecision, sets_of
from hetrl_operator.decide.kueue import queueing
from hetrl_operator.decide.plan import auto
from hetrl_operator.decide.plan.planned import Planned
from hetrl_operator.decide.pods import running_roles
from hetrl_operator.decide.pods.finalizer import add_finalizer
from hetrl_operator.decide.pods.gang import remove_scheduling_gates
from hetrl_operator.decide.pods.replacements import (
    Wanted,
    next_loss_seconds,
    next_stuck_seconds,
    replacements,
)
from hetrl_operator.decide.pods.replacements import events as replacement_events
from hetrl_operator.decide.pods.resources import refused, resources
from hetrl_operator.decide.pods.restarts import events as restart_events
from hetrl_operator.decide.pods.restarts import restarts
from hetrl_operator.decide.status import degraded as watch
from hetrl_operator.decide.status.progress import next_write_seconds, progress
from hetrl_operator.decide.status.readiness import role_findings
from hetrl_operator.decide.status.stalled import advance, next_stall_seconds
from hetrl_operator.decide.stopping import queued
from hetrl_operator.model.actions import Event
from hetrl_operator.model.conditions import Finding
from hetrl_operator.model.observed import Observed, ParsedSpec
from hetrl_operator.model.reasons import ConditionType, EventReason
from hetrl_operator.render import Deployment, digests
from hetrl_operator.settings import PodSettings

if TYPE_CHECKING:
    from datetime import datetime


def checked(
    seen: Observed, parsed: ParsedSpec, accepted: Finding, now: "datetime", settings: PodSettings
) -> JobDecision:
    """Check the job's models, data and reward, before it is planned or waits in a queue."""
    check = preflight.checking(seen, parsed, now, settings)
    return JobDecision(
        findings=(accepted, check.finding, *running_roles.resumed_finding(seen), *refused(seen)),
        actions=check.actions,
        preflight=check.status,
        wake_after=(check.wake_after_seconds,),
    )


def active(
    seen: Observed, parsed: ParsedSpec, accepted: Finding, now: "datetime", settings: PodSettings
) -> JobDecision:
    """Plan the job, and deploy it as soon as it has a plan."""
    planned = auto.planned(seen, parsed, now)
    done = preflight.clean_up_if_passed(seen, parsed, settings)
    planned = replace(planned, actions=(*done, *planned.actions))
    plan = planned.plan.plan if planned.plan else None
    quota = queueing.finding(seen, parsed, plan)
    findings = (accepted, planned.finding, *quota, *running_roles.resumed_finding(seen))
    only = parsed.written.planning.mode is PlanningMode.PLAN_ONLY
    if planned.plan is None or only:
        return JobDecision(
            findings=(*findings, *refused(seen)),
            actions=planned.actions,
            plan=planned.plan,
            wake_after=(
                next_deadline_seconds(seen, now),
                planned.wake_after_seconds,
                _next_room_seconds(seen, now),
            ),
        )
    if not seen.pods and queueing.exceeds(seen, parsed, planned.plan.plan):
        # The plan changed since the admission: the job waits again with its new requests.
        return queued(seen, parsed, accepted, now, settings)
    deployment = Deployment(
        job=seen.job,
        parsed=parsed,
        plan=planned.plan,
        sets=sets_of(planned.plan),
        running=running_roles.ALL_ROLES,
        settings=settings,
    )
    return _deployed(seen, planned, deployment, findings, now)


def _deployed(
    seen: Observed,
    planned: Planned,
    deployment: Deployment,
    findings: tuple[Finding, ...],
    now: "datetime",
) -> JobDecision:
    """Bring the pods of a job to its plan, and report their state."""
    sets = deployment.sets
    written = resources(seen, deployment)
    restarted = restarts(seen, sets, now)
    replaced = replacements(seen, _wanted(deployment), restarted.records, now)
    ungated = remove_scheduling_gates(
        seen, sets, replaced, now, holds_trainers=restarted.is_pending
    )
    shown = progress(seen, now)
    roles = role_findings(seen, sets)
    is_running = any(each.holds for each in roles if each.type == ConditionType.RUNNING)
    workload = queueing.delete_orphaned(seen) or queueing.report_pods_ready(
        seen, is_running=is_running, now=now
    )
    return JobDecision(
        findings=(
            *findings,
            written.finding,
            *roles,
            advance(seen, shown, now),
            watch.degraded(seen, deployment.parsed, planned, sets),
        ),
        actions=(
            *add_finalizer(seen),
            *planned.actions,
            *written.actions,
            *replaced,
            *ungated,
            *workload,
        ),
        events=(
            *planned.events,
            *restart_events(restarted),
            *replacement_events(replaced, restarted.new),
            *_gang_events(len(ungated), sets),
        ),
        plan=planned.plan,
        sets=sets,
        running=running_roles.ALL_ROLES,
        replan=planned.replan,
        restarts=restarted,
        wake_after=(
            next_deadline_seconds(seen, now),
            next_write_seconds(seen, now),
            next_loss_seconds(seen, now),
            next_stuck_seconds(seen, now),
            next_stall_seconds(seen, shown, now),
            restarted.wake_after_seconds,
            planned.wake_after_seconds,
            _next_room_seconds(seen, now),
        ),
    )


def _next_room_seconds(seen: Observed, now: "datetime") -> float | None:
    """Return the seconds until the set of full machines may change without an event."""
    at = seen.full_machines.next_at
    return max(0.0, (at - now).total_seconds()) if at else None


def _wanted(deployment: Deployment) -> Wanted:
    return Wanted(sets=deployment.sets, restart_hashes=digests(deployment).restarts)


def _gang_events(num_ungated: int, sets: tuple[PodSet, ...]) -> tuple[Event, ...]:
    if not num_ungated or num_ungated != sum(each.num_pods for each in sets):
        return ()
    text = f"all {num_ungated} pods may be scheduled"
    return (Event(reason=EventReason.GANG_STARTED, message=text),)
