"""One round for one job, as a table of contents of the policies."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hetrl_api.planning import PlanningMode
from hetrl_api.status import JobStatus
from hetrl_core.podset import PodSet, pod_sets
from hetrl_core.task import Role
from hetrl_operator.actions import Action, Decision, DeleteJob, Event, ReleaseGpus, WriteStatus
from hetrl_operator.decide import degraded as watch
from hetrl_operator.decide import plans, stage, terminal
from hetrl_operator.decide.conditions import Finding, announcements, condition, settled
from hetrl_operator.decide.deadlines import next_deadline_seconds, ttl_left_seconds
from hetrl_operator.decide.gang import lifts, trainer_restarts
from hetrl_operator.decide.phase import phase
from hetrl_operator.decide.progress import next_write_seconds, progress
from hetrl_operator.decide.readiness import (
    pod_set_statuses,
    role_findings,
    rollout_status,
    stopped_findings,
    trainer_status,
)
from hetrl_operator.decide.resources import resources
from hetrl_operator.labels import ConditionType, EventReason, Reason
from hetrl_operator.observed import Observed, PlanSeen, Wish
from hetrl_operator.render import Deployment
from hetrl_operator.settings import PodSettings

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """What the policies of one round came to."""

    findings: tuple[Finding, ...]
    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    plan: PlanSeen | None = None
    sets: tuple[PodSet, ...] = ()
    running: frozenset[Role] = frozenset()
    gang_restarts: int = 0
    wake_after: tuple[float | None, ...] = ()


def decide(seen: Observed, now: "datetime", settings: PodSettings) -> Decision:
    """Return what to do for a job now, and when to look again."""
    if seen.job.is_deleting:
        return Decision()
    round_ = _round(seen, now, settings)
    status = _status(seen, round_, now)
    wakes = [each for each in round_.wake_after if each is not None]
    return Decision(
        status=None if status == seen.job.status else WriteStatus(status=status),
        actions=round_.actions,
        events=(*announcements(seen.job.status, status.conditions), *round_.events),
        wake_after_seconds=max(0.0, min(wakes)) if wakes else None,
    )


def _round(seen: Observed, now: "datetime", settings: PodSettings) -> _Round:
    end = terminal.verdict(seen, now)
    if end:
        return _ended(seen, end, now, settings)
    wish = seen.job.wish
    if wish is None:
        return _Round(findings=(_accepted(Reason.INVALID_SPEC, seen.job.problem),))
    accepted = _accepted(Reason.VALID, "")
    if wish.written.suspend:
        return _suspended(seen, wish, accepted, settings)
    return _active(seen, wish, accepted, now, settings)


def _active(
    seen: Observed, wish: Wish, accepted: Finding, now: "datetime", settings: PodSettings
) -> _Round:
    planned = plans.planned(seen, wish)
    findings = (accepted, planned.finding, *stage.resumed_finding(seen))
    only = wish.written.planning.mode is PlanningMode.PLAN_ONLY
    if planned.plan is None or only:
        return _Round(findings=findings, actions=planned.actions, plan=planned.plan)
    sets = pod_sets(planned.plan.plan)
    written = resources(
        seen,
        Deployment(
            job=seen.job,
            wish=wish,
            plan=planned.plan,
            sets=sets,
            running=stage.ALL_ROLES,
            settings=settings,
        ),
    )
    replaced, lifted = trainer_restarts(seen, sets), lifts(seen, sets)
    return _Round(
        findings=(
            *findings,
            written.finding,
            *role_findings(seen, sets),
            watch.degraded(seen, wish, planned.plan, sets),
        ),
        actions=(*planned.actions, *written.actions, *replaced, *lifted),
        events=_gang_events(len(lifted), len(replaced), sets),
        plan=planned.plan,
        sets=sets,
        running=stage.ALL_ROLES,
        gang_restarts=1 if replaced else 0,
        wake_after=(next_deadline_seconds(seen, now), next_write_seconds(seen, now)),
    )


def _suspended(seen: Observed, wish: Wish, accepted: Finding, settings: PodSettings) -> _Round:
    text = "the job is suspended"
    planned = Finding(
        type=ConditionType.PLANNED, holds=False, reason=Reason.SUSPENDED, message=text
    )
    created = replace(planned, type=ConditionType.RESOURCES_CREATED)
    round_ = _stopped(seen, wish, running=stage.roles_while_suspending(seen), settings=settings)
    return replace(
        round_,
        findings=(
            accepted,
            planned,
            stage.suspended_finding(seen),
            created,
            *stopped_findings(Reason.SUSPENDED, text),
        ),
    )


def _ended(seen: Observed, end: terminal.Verdict, now: "datetime", settings: PodSettings) -> _Round:
    ttl = ttl_left_seconds(seen, now)
    expired = ttl is not None and ttl <= 0
    wish, round_ = seen.job.wish, _Round(findings=())
    if wish:
        round_ = _stopped(seen, wish, running=stage.NO_ROLE, settings=settings)
    type_ = ConditionType.COMPLETE if end.succeeded else ConditionType.FAILED
    ended = Finding(type=type_, holds=True, reason=end.reason, message=end.message)
    kept = tuple(_kept(seen, each) for each in (ConditionType.ACCEPTED, ConditionType.PLANNED))
    return replace(
        round_,
        findings=(
            *(each for each in kept if each),
            *stopped_findings(Reason.FINISHED, "the job has ended"),
            ended,
        ),
        actions=(*round_.actions, *((DeleteJob(),) if expired else ())),
        events=(
            Event(reason=EventReason.TTL_EXPIRED, message="spec.ttlSecondsAfterFinished is over"),
        )
        if expired
        else (),
        wake_after=(ttl,) if ttl is not None and not expired else (),
    )


def _stopped(
    seen: Observed, wish: Wish, *, running: frozenset[Role], settings: PodSettings
) -> _Round:
    """Stop the pods of the roles that are not needed; free the GPUs when nobody holds them."""
    holds_gpus = any(pod.role is not Role.COORDINATOR for pod in seen.pods)
    release: tuple[Action, ...] = ()
    if seen.planning.is_reserved and not holds_gpus:
        release = (ReleaseGpus(),)
    plan = plans.newest(seen.plans)
    if plan is None:
        return _Round(findings=(), actions=release)
    sets = pod_sets(plan.plan)
    started = any(each.kind == "StatefulSet" for each in seen.children)
    writes: tuple[Action, ...] = ()
    if started:
        deployment = Deployment(
            job=seen.job, wish=wish, plan=plan, sets=sets, running=running, settings=settings
        )
        writes = resources(seen, deployment).actions
    return _Round(findings=(), actions=(*writes, *release), plan=plan, sets=sets, running=running)


def _status(seen: Observed, round_: _Round, now: "datetime") -> JobStatus:
    job, before = seen.job, seen.job.status
    now = now.replace(microsecond=0)
    conditions = settled(round_.findings, before=before, generation=job.generation, now=now)
    shown = pod_set_statuses(seen, round_.sets, round_.running)
    planning = job.wish.written.planning if job.wish else None
    only = planning is not None and planning.mode is PlanningMode.PLAN_ONLY
    ended = any(
        each.type in {ConditionType.COMPLETE, ConditionType.FAILED} for each in round_.findings
    )
    return JobStatus(
        observed_generation=job.generation,
        phase=phase(round_.findings, plan_only=only),
        start_time=_start_time(before, round_, now),
        completion_time=(before.completion_time or now) if ended else None,
        restarts=terminal.restarts(seen) + round_.gang_restarts,
        conditions=conditions,
        plan=plans.plan_status(round_.plan) if round_.plan else None,
        progress=progress(seen, now),
        trainer=trainer_status(shown),
        rollout=rollout_status(job.name, shown),
        pod_sets=shown,
    )


def _start_time(before: JobStatus, round_: _Round, now: "datetime") -> "datetime | None":
    """Return when the pods were first created since the last resume; kept after the end."""
    if round_.running == stage.ALL_ROLES:
        return before.start_time or now
    suspended = any(each.type == ConditionType.SUSPENDED for each in round_.findings)
    return None if suspended else before.start_time


def _gang_events(lifted: int, replaced: int, sets: tuple[PodSet, ...]) -> tuple[Event, ...]:
    events = []
    if lifted and lifted == sum(each.num_pods for each in sets):
        events.append(
            Event(reason=EventReason.GANG_STARTED, message=f"all {lifted} pods may be scheduled")
        )
    if replaced:
        text = f"{replaced} trainer pods are replaced: their gang lost a member"
        events.append(Event(reason=EventReason.TRAINER_RESTARTED, message=text, is_warning=True))
    return tuple(events)


def _accepted(reason: str, message: str) -> Finding:
    return Finding(
        type=ConditionType.ACCEPTED,
        holds=reason == Reason.VALID,
        reason=reason,
        message=message or "the spec can be worked on",
    )


def _kept(seen: Observed, type_: str) -> Finding | None:
    known = condition(seen.job.status, type_)
    if known is None:
        return None
    return Finding(
        type=type_, holds=known.status == "True", reason=known.reason, message=known.message
    )
