"""The decision for a job whose pods should stop: it is queued, suspended, deleted or ended.

Its reservation is released when none of its pods holds a GPU any more, and not before.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from hetrl_core.task import Role
from hetrl_operator.decide import preflight, terminal
from hetrl_operator.decide.deadlines import ttl_left_seconds
from hetrl_operator.decide.job_decision import JobDecision, as_before, sets_of
from hetrl_operator.decide.kueue import queueing
from hetrl_operator.decide.plan import auto, history
from hetrl_operator.decide.pods import running_roles
from hetrl_operator.decide.pods.finalizer import (
    add_finalizer,
    forced,
    left_seconds,
    remove_finalizer,
)
from hetrl_operator.decide.pods.replacements import next_loss_seconds, on_lost_nodes
from hetrl_operator.decide.pods.resources import refused, resources, stops
from hetrl_operator.decide.status.readiness import stopped_findings
from hetrl_operator.model.actions import (
    Action,
    Delete,
    DeleteJob,
    Event,
    ReleaseGpus,
    RemoveFinalizer,
)
from hetrl_operator.model.conditions import Finding, condition
from hetrl_operator.model.labels import child_name
from hetrl_operator.model.observed import Observed, ParsedSpec
from hetrl_operator.model.reasons import ConditionType, EventReason, Reason
from hetrl_operator.render import Deployment
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


def queued(
    seen: Observed, parsed: ParsedSpec, accepted: Finding, now: "datetime", settings: PodSettings
) -> JobDecision:
    """Wait for the job's queue; existing pods stop as in a suspension."""
    stopped = _stopped(
        seen,
        parsed,
        running=running_roles.roles_while_stopping(seen),
        now=now,
        settings=settings,
        last=preflight.clean_up_if_passed(seen, parsed, settings),
    )
    if seen.pods:
        return _evicted(seen, parsed, accepted, stopped)
    planned = auto.planned(seen, parsed, now)
    plan = planned.plan.plan if planned.plan else None
    return replace(
        stopped,
        findings=(
            accepted,
            planned.finding,
            *queueing.finding(seen, parsed, plan),
            *queueing.waiting_suspended(seen),
            *refused(seen),
        ),
        actions=(
            *stopped.actions,
            *planned.actions,
            *((*add_finalizer(seen), *queueing.sync_workload(seen, parsed, plan)) if plan else ()),
        ),
        plan=planned.plan,
        sets=sets_of(planned.plan),
        wake_after=(*stopped.wake_after, planned.wake_after_seconds),
    )


def _evicted(
    seen: Observed, parsed: ParsedSpec, accepted: Finding, stopped: JobDecision
) -> JobDecision:
    text = "the job's queue does not admit it"
    kept = as_before(seen, ConditionType.PLANNED)
    created = Finding(
        type=ConditionType.RESOURCES_CREATED, holds=False, reason=Reason.EVICTED, message=text
    )
    return replace(
        stopped,
        findings=(
            accepted,
            *((kept,) if kept else ()),
            *queueing.finding(seen, parsed, stopped.plan.plan if stopped.plan else None),
            running_roles.suspended_finding(seen),
            created,
            *stopped_findings(seen, Reason.EVICTED, text),
        ),
    )


def suspended(
    seen: Observed, parsed: ParsedSpec, accepted: Finding, now: "datetime", settings: PodSettings
) -> JobDecision:
    """Stop the pods, trainers after their checkpoint, and release GPUs and quota."""
    text = "the job is suspended"
    planned = Finding(
        type=ConditionType.PLANNED, holds=False, reason=Reason.SUSPENDED, message=text
    )
    created = replace(planned, type=ConditionType.RESOURCES_CREATED)
    result = _stopped(
        seen,
        parsed,
        running=running_roles.roles_while_stopping(seen),
        now=now,
        settings=settings,
        last=(
            *preflight.clean_up(seen),
            *queueing.return_quota(seen),
            *remove_finalizer(seen, now),
        ),
    )
    return replace(
        result,
        findings=(
            accepted,
            planned,
            *((queueing.returned(),) if _has_quota_condition(seen) else ()),
            running_roles.suspended_finding(seen),
            created,
            *stopped_findings(seen, Reason.SUSPENDED, text),
        ),
    )


def deleted(seen: Observed, now: "datetime", settings: PodSettings) -> JobDecision:
    """Stop the pods as in a suspension, trainers first, and remove the finalizer."""
    parsed = seen.job.parsed
    if parsed is None:
        return JobDecision(findings=(), actions=(RemoveFinalizer(),))
    result = _stopped(
        seen,
        parsed,
        running=running_roles.roles_while_stopping(seen),
        now=now,
        settings=settings,
        last=(*queueing.return_quota(seen), *history.clear(seen), *remove_finalizer(seen, now)),
    )
    kept = tuple(as_before(seen, each) for each in _KEPT_OF_A_DELETED_JOB)
    return replace(
        result,
        findings=(
            *(each for each in kept if each),
            *stopped_findings(seen, Reason.DELETING, "the job is being deleted"),
        ),
        events=forced(seen, now),
        wake_after=(*result.wake_after, left_seconds(seen, now)),
    )


def ended(
    seen: Observed, end: terminal.Verdict, now: "datetime", settings: PodSettings
) -> JobDecision:
    """Keep the verdict until the job's time to live is over."""
    ttl = ttl_left_seconds(seen, now)
    expired = ttl is not None and ttl <= 0
    parsed, result = seen.job.parsed, JobDecision(findings=())
    if parsed:
        finished = queueing.report_finished(
            seen, succeeded=end.succeeded, message=end.message, now=now
        )
        result = _stopped(
            seen,
            parsed,
            running=running_roles.NO_ROLE,
            now=now,
            settings=settings,
            last=(*preflight.clean_up(seen), *finished, *remove_finalizer(seen, now)),
        )
    type_ = ConditionType.COMPLETE if end.succeeded else ConditionType.FAILED
    verdict = Finding(type=type_, holds=True, reason=end.reason, message=end.message)
    kept = tuple(as_before(seen, each) for each in (ConditionType.ACCEPTED, ConditionType.PLANNED))
    return replace(
        result,
        findings=(
            *(each for each in kept if each),
            *((queueing.returned(),) if _has_quota_condition(seen) else ()),
            *stopped_findings(seen, Reason.FINISHED, "the job has ended"),
            verdict,
        ),
        actions=(*result.actions, *((DeleteJob(),) if expired else ())),
        events=(
            Event(reason=EventReason.TTL_EXPIRED, message="spec.ttlSecondsAfterFinished is over"),
        )
        if expired
        else (),
        wake_after=(*result.wake_after, ttl if not expired else None),
    )


def _has_quota_condition(seen: Observed) -> bool:
    return condition(seen.job.status, ConditionType.QUOTA_RESERVED) is not None


def _stopped(
    seen: Observed,
    parsed: ParsedSpec,
    *,
    running: frozenset[Role],
    now: "datetime",
    settings: PodSettings,
    last: tuple[Action, ...],
) -> JobDecision:
    """Stop the pods of roles that are not needed, and release GPUs that no pod holds.

    The last actions come after the release: jobs that a queue admits then can use the GPUs.
    """
    holds_gpus = any(pod.role is not Role.COORDINATOR for pod in seen.pods)
    if seen.planning.is_reserved and not holds_gpus:
        last = (ReleaseGpus(), *last)
    dead = on_lost_nodes(seen, now)
    plan = seen.active_plan
    wakes = (next_loss_seconds(seen, now),) if seen.pods else ()
    if plan is None:
        gone = _without_plan(seen, running)
        return JobDecision(findings=(), actions=(*gone, *dead, *last), wake_after=wakes)
    sets = seen.pod_sets
    started = any(each.kind == "StatefulSet" for each in seen.children)
    writes: tuple[Action, ...] = ()
    if started:
        deployment = Deployment(
            job=seen.job, parsed=parsed, plan=plan, sets=sets, running=running, settings=settings
        )
        writes = (
            stops(seen, deployment)
            if seen.job.is_deleting
            else (resources(seen, deployment).actions)
        )
    return JobDecision(
        findings=(),
        actions=(*writes, *dead, *last),
        plan=plan,
        sets=sets,
        running=running,
        wake_after=wakes,
    )


def _without_plan(seen: Observed, running: frozenset[Role]) -> tuple[Delete, ...]:
    """Stop pods whose plan was deleted, so that their pod sets are unknown."""
    stopping = {
        child_name(seen.job.name, pod.pod_set) for pod in seen.pods if pod.role not in running
    }
    return tuple(
        Delete(
            kind=each.kind,
            name=each.name,
            uid=each.uid,
            why="the job stops, and its plan is not there any more",
        )
        for each in seen.children
        if each.kind == "StatefulSet"
        and each.name in stopping
        and each.owner_uid == seen.job.uid
        and not each.is_deleting
    )
