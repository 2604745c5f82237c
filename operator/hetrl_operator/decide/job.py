"""One round for one job, as a table of contents of the policies."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hetrl_api.planning import PlanningMode
from hetrl_api.status import JobStatus, LastReplan
from hetrl_core.podset import PodSet, pod_sets
from hetrl_core.task import Role
from hetrl_operator.actions import (
    Action,
    Decision,
    Delete,
    DeleteJob,
    Event,
    LetJobGo,
    ReleaseGpus,
    WriteStatus,
)
from hetrl_operator.decide import degraded as watch
from hetrl_operator.decide import history, plans, queueing, stage, terminal
from hetrl_operator.decide.advance import advance, next_stall_seconds
from hetrl_operator.decide.conditions import Finding, announcements, condition, settled
from hetrl_operator.decide.deadlines import next_deadline_seconds, ttl_left_seconds
from hetrl_operator.decide.gang import lifts
from hetrl_operator.decide.in_force import in_force
from hetrl_operator.decide.phase import phase
from hetrl_operator.decide.planned import Planned
from hetrl_operator.decide.progress import next_write_seconds, progress
from hetrl_operator.decide.queueing import is_ours
from hetrl_operator.decide.readiness import (
    pod_set_statuses,
    role_findings,
    rollout_status,
    stopped_findings,
    trainer_status,
)
from hetrl_operator.decide.release import forced, hold, left_seconds, let_go
from hetrl_operator.decide.replacements import (
    Wanted,
    next_loss_seconds,
    next_stuck_seconds,
    on_lost_nodes,
    replacements,
)
from hetrl_operator.decide.replacements import events as replacement_events
from hetrl_operator.decide.resources import resources, stops
from hetrl_operator.decide.restarts import Restarts, restarts, unchanged
from hetrl_operator.decide.restarts import events as restart_events
from hetrl_operator.labels import child_name
from hetrl_operator.observed import Observed, PlanSeen, Wish
from hetrl_operator.reasons import ConditionType, EventReason, Reason
from hetrl_operator.render import Deployment, restart_hash
from hetrl_operator.settings import PodSettings

if TYPE_CHECKING:
    from datetime import datetime


_KEPT_OF_A_DELETED_JOB = (
    ConditionType.ACCEPTED,
    ConditionType.PLANNED,
    ConditionType.SUSPENDED,
    ConditionType.COMPLETE,
    ConditionType.FAILED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """What the policies of one round came to."""

    findings: tuple[Finding, ...]
    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    plan: PlanSeen | None = None
    sets: tuple[PodSet, ...] = ()
    running: frozenset[Role] = frozenset()
    replan: LastReplan | None = None
    """What came of a search for another plan, where that is news."""

    restarts: Restarts | None = None
    """None where no failure is looked for: status keeps what it has."""

    wake_after: tuple[float | None, ...] = ()


def decide(seen: Observed, now: "datetime", settings: PodSettings) -> Decision:
    """Return what to do for a job now, and when to look again."""
    if not is_ours(seen.job) or (seen.job.is_deleting and not seen.job.has_finalizer):
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
    if seen.job.is_deleting:
        return _deleted(seen, now, settings)
    end = terminal.verdict(seen, _sets(in_force(seen.job, seen.plans)), now)
    if end:
        return _ended(seen, end, now, settings)
    wish = seen.job.wish
    if wish is None:
        return _Round(findings=(_accepted(Reason.INVALID_SPEC, seen.job.problem),))
    accepted = _accepted(Reason.VALID, "")
    if wish.written.suspend:
        return _suspended(seen, wish, accepted, now, settings)
    if queueing.waits(seen.job, seen.queueing):
        return _queued(seen, wish, accepted, now, settings)
    return _active(seen, wish, accepted, now, settings)


def _active(
    seen: Observed, wish: Wish, accepted: Finding, now: "datetime", settings: PodSettings
) -> _Round:
    planned = plans.planned(seen, wish, now)
    plan = planned.plan.plan if planned.plan else None
    quota = queueing.finding(seen, wish, plan)
    findings = (accepted, planned.finding, *quota, *stage.resumed_finding(seen))
    only = wish.written.planning.mode is PlanningMode.PLAN_ONLY
    if planned.plan is None or only:
        return _Round(
            findings=findings,
            actions=planned.actions,
            plan=planned.plan,
            wake_after=(next_deadline_seconds(seen, now), planned.wake_after_seconds),
        )
    if not seen.pods and queueing.exceeds(seen, wish, planned.plan.plan):
        # Planned anew since it was admitted: it waits again, with what it needs now.
        return _queued(seen, wish, accepted, now, settings)
    deployment = Deployment(
        job=seen.job, wish=wish, plan=planned.plan, sets=_sets(planned.plan),
        running=stage.ALL_ROLES, settings=settings,
    )  # fmt: skip
    return _deployed(seen, planned, deployment, findings, now)


def _deployed(
    seen: Observed,
    planned: Planned,
    deployment: Deployment,
    findings: tuple[Finding, ...],
    now: "datetime",
) -> _Round:
    """Bring the pods of a job to what its plan wants, and tell what they do."""
    sets = deployment.sets
    written = resources(seen, deployment)
    restarted = restarts(seen, sets, now)
    replaced = replacements(seen, _wanted(deployment), restarted.records, now)
    lifted = lifts(seen, sets, replaced, now, holds_trainers=restarted.is_pending)
    shown = progress(seen, now)
    roles = role_findings(seen, sets)
    is_running = any(each.holds for each in roles if each.type == ConditionType.RUNNING)
    told = queueing.strays(seen) or queueing.tells(seen, is_running=is_running, now=now)
    return _Round(
        findings=(
            *findings,
            written.finding,
            *roles,
            advance(seen, shown, now),
            watch.degraded(seen, deployment.wish, planned, sets),
        ),
        actions=(*hold(seen), *planned.actions, *written.actions, *replaced, *lifted, *told),
        events=(
            *planned.events,
            *restart_events(restarted),
            *replacement_events(replaced, restarted.new),
            *_gang_events(len(lifted), sets),
        ),
        plan=planned.plan,
        sets=sets,
        running=stage.ALL_ROLES,
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
        ),
    )


def _wanted(deployment: Deployment) -> Wanted:
    hashes = {each.name: restart_hash(deployment, each) for each in deployment.sets}
    return Wanted(sets=deployment.sets, restart_hashes=hashes)


def _sets(plan: PlanSeen | None) -> tuple[PodSet, ...]:
    return pod_sets(plan.plan) if plan else ()


def _queued(
    seen: Observed, wish: Wish, accepted: Finding, now: "datetime", settings: PodSettings
) -> _Round:
    """Wait for the job's queue; pods that there still are stop as for a suspension."""
    stopped = _stopped(
        seen, wish, running=stage.roles_while_stopping(seen), now=now, settings=settings, last=()
    )
    if seen.pods:
        return _evicted(seen, wish, accepted, stopped)
    planned = plans.planned(seen, wish, now)
    plan = planned.plan.plan if planned.plan else None
    return replace(
        stopped,
        findings=(
            accepted,
            planned.finding,
            *queueing.finding(seen, wish, plan),
            *queueing.waiting_suspended(seen),
        ),
        actions=(
            *stopped.actions,
            *planned.actions,
            *((*hold(seen), *queueing.in_queue(seen, wish, plan)) if plan else ()),
        ),
        plan=planned.plan,
        sets=_sets(planned.plan),
        wake_after=(*stopped.wake_after, planned.wake_after_seconds),
    )


def _evicted(seen: Observed, wish: Wish, accepted: Finding, stopped: _Round) -> _Round:
    text = "the job's queue does not admit it"
    kept = _kept(seen, ConditionType.PLANNED)
    created = Finding(
        type=ConditionType.RESOURCES_CREATED, holds=False, reason=Reason.EVICTED, message=text
    )
    return replace(
        stopped,
        findings=(
            accepted,
            *((kept,) if kept else ()),
            *queueing.finding(seen, wish, stopped.plan.plan if stopped.plan else None),
            stage.suspended_finding(seen),
            created,
            *stopped_findings(Reason.EVICTED, text),
        ),
    )


def _suspended(
    seen: Observed, wish: Wish, accepted: Finding, now: "datetime", settings: PodSettings
) -> _Round:
    text = "the job is suspended"
    planned = Finding(
        type=ConditionType.PLANNED, holds=False, reason=Reason.SUSPENDED, message=text
    )
    created = replace(planned, type=ConditionType.RESOURCES_CREATED)
    round_ = _stopped(
        seen, wish, running=stage.roles_while_stopping(seen), now=now, settings=settings,
        last=(*queueing.gives_back(seen), *let_go(seen, now)),
    )  # fmt: skip
    return replace(
        round_,
        findings=(
            accepted,
            planned,
            *((queueing.returned(),) if _has_quota_condition(seen) else ()),
            stage.suspended_finding(seen),
            created,
            *stopped_findings(Reason.SUSPENDED, text),
        ),
    )


def _deleted(seen: Observed, now: "datetime", settings: PodSettings) -> _Round:
    """Stop the pods as for a suspension, trainers first, and let the job go."""
    wish = seen.job.wish
    if wish is None:
        return _Round(findings=(), actions=(LetJobGo(),))
    round_ = _stopped(
        seen, wish, running=stage.roles_while_stopping(seen), now=now, settings=settings,
        last=(*queueing.gives_back(seen), *history.clear(seen), *let_go(seen, now)),
    )  # fmt: skip
    kept = tuple(_kept(seen, each) for each in _KEPT_OF_A_DELETED_JOB)
    return replace(
        round_,
        findings=(
            *(each for each in kept if each),
            *stopped_findings(Reason.DELETING, "the job is being deleted"),
        ),
        events=forced(seen, now),
        wake_after=(*round_.wake_after, left_seconds(seen, now)),
    )


def _ended(seen: Observed, end: terminal.Verdict, now: "datetime", settings: PodSettings) -> _Round:
    ttl = ttl_left_seconds(seen, now)
    expired = ttl is not None and ttl <= 0
    wish, round_ = seen.job.wish, _Round(findings=())
    if wish:
        told = queueing.finishes(seen, succeeded=end.succeeded, message=end.message, now=now)
        round_ = _stopped(
            seen,
            wish,
            running=stage.NO_ROLE,
            now=now,
            settings=settings,
            last=(*told, *let_go(seen, now)),
        )
    type_ = ConditionType.COMPLETE if end.succeeded else ConditionType.FAILED
    ended = Finding(type=type_, holds=True, reason=end.reason, message=end.message)
    kept = tuple(_kept(seen, each) for each in (ConditionType.ACCEPTED, ConditionType.PLANNED))
    return replace(
        round_,
        findings=(
            *(each for each in kept if each),
            *((queueing.returned(),) if _has_quota_condition(seen) else ()),
            *stopped_findings(Reason.FINISHED, "the job has ended"),
            ended,
        ),
        actions=(*round_.actions, *((DeleteJob(),) if expired else ())),
        events=(
            Event(reason=EventReason.TTL_EXPIRED, message="spec.ttlSecondsAfterFinished is over"),
        )
        if expired
        else (),
        wake_after=(*round_.wake_after, ttl if not expired else None),
    )


def _stopped(
    seen: Observed,
    wish: Wish,
    *,
    running: frozenset[Role],
    now: "datetime",
    settings: PodSettings,
    last: tuple[Action, ...],
) -> _Round:
    """Stop the pods of the roles that are not needed; free the GPUs when nobody holds them.

    What is done last comes after the GPUs: whom a queue admits then can be planned on them.
    """
    holds_gpus = any(pod.role is not Role.COORDINATOR for pod in seen.pods)
    if seen.planning.is_reserved and not holds_gpus:
        last = (ReleaseGpus(), *last)
    dead = on_lost_nodes(seen, now)
    plan = in_force(seen.job, seen.plans)
    wakes = (next_loss_seconds(seen, now),) if seen.pods else ()
    if plan is None:
        gone = _without_plan(seen, running)
        return _Round(findings=(), actions=(*gone, *dead, *last), wake_after=wakes)
    sets = _sets(plan)
    started = any(each.kind == "StatefulSet" for each in seen.children)
    writes: tuple[Action, ...] = ()
    if started:
        deployment = Deployment(
            job=seen.job, wish=wish, plan=plan, sets=sets, running=running, settings=settings
        )
        writes = (
            stops(seen, deployment)
            if seen.job.is_deleting
            else (resources(seen, deployment).actions)
        )
    return _Round(
        findings=(),
        actions=(*writes, *dead, *last),
        plan=plan,
        sets=sets,
        running=running,
        wake_after=wakes,
    )


def _without_plan(seen: Observed, running: frozenset[Role]) -> tuple[Delete, ...]:
    """Stop pods whose plan somebody has deleted: what their sets looked like, nobody knows."""
    stopping = {
        child_name(seen.job.name, pod.pod_set) for pod in seen.pods if pod.role not in running
    }
    return tuple(
        Delete(
            kind=each.kind, name=each.name, uid=each.uid,
            why="the job stops, and its plan is not there any more",
        )
        for each in seen.children
        if each.kind == "StatefulSet"
        and each.name in stopping
        and each.owner_uid == seen.job.uid
        and not each.is_deleting
    )  # fmt: skip


def _status(seen: Observed, round_: _Round, now: "datetime") -> JobStatus:
    job, before = seen.job, seen.job.status
    restarted = round_.restarts or unchanged(before)
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
        restarts=restarted.count,
        recent_restarts=restarted.records,
        conditions=conditions,
        plan=plans.plan_status(round_.plan) if round_.plan else None,
        last_replan=round_.replan or before.last_replan,
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


def _gang_events(lifted: int, sets: tuple[PodSet, ...]) -> tuple[Event, ...]:
    if not lifted or lifted != sum(each.num_pods for each in sets):
        return ()
    text = f"all {lifted} pods may be scheduled"
    return (Event(reason=EventReason.GANG_STARTED, message=text),)


def _accepted(reason: str, message: str) -> Finding:
    return Finding(
        type=ConditionType.ACCEPTED,
        holds=reason == Reason.VALID,
        reason=reason,
        message=message or "the spec can be worked on",
    )


def _has_quota_condition(seen: Observed) -> bool:
    return condition(seen.job.status, ConditionType.QUOTA_RESERVED) is not None


def _kept(seen: Observed, type_: str) -> Finding | None:
    known = condition(seen.job.status, type_)
    if known is None:
        return None
    return Finding(
        type=type_, holds=known.status == "True", reason=known.reason, message=known.message
    )
