"""Decisions about jobs in a queue of Kueue: their Workload, its status and condition QuotaReserved.

A job is planned first, on the whole fleet, and its Workload requests what the plan takes. Until the
Workload is admitted, nothing is reserved and no pod is made. Once it is evicted, the job stops as
in a suspension, and returns the quota when no pod is left.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hetrl_core.plan.plan import Plan
from hetrl_core.plan.pod_sets import pod_sets
from hetrl_operator.model.actions import Action, Delete, RequeueWorkload, UpdateWorkloadStatus
from hetrl_operator.model.conditions import Finding, condition
from hetrl_operator.model.kueue import api as kueue_api
from hetrl_operator.model.kueue.admission import WorkloadCondition, WorkloadSeen
from hetrl_operator.model.kueue.queueing import is_queued
from hetrl_operator.model.observed import Observed, ParsedSpec
from hetrl_operator.model.reasons import ConditionType, Reason
from hetrl_operator.render.kueue_workload import (
    RequestedPodSet,
    requested_pod_sets,
    submission,
    too_many,
)

if TYPE_CHECKING:
    from datetime import datetime


def requested(seen: Observed, parsed: ParsedSpec, plan: Plan) -> tuple[RequestedPodSet, ...]:
    """Return the pod sets that a plan requests of the job's queue."""
    return requested_pod_sets(parsed, pod_sets(plan), seen.queueing.machine_labels)


def exceeds(seen: Observed, parsed: ParsedSpec, plan: Plan) -> str:
    """Say which pods of a plan exceed the Workload's requests; empty if none, or without a queue.

    A plan with fewer pods than admitted is covered: pods cannot be removed from a Workload.
    """
    workload = seen.queueing.workload
    if workload is None or not is_queued(seen.job, seen.queueing):
        return ""
    more = [
        f"{each.count} {each.name} pods instead of {admitted}"
        for each in requested(seen, parsed, plan)
        if each.count > (admitted := workload.counts.get((each.name, each.digest), 0))
    ]
    return ", ".join(more)


def sync_workload(seen: Observed, parsed: ParsedSpec, plan: Plan) -> tuple[Action, ...]:
    """Bring the Workload of a job without pods to its plan's requests, or return its quota."""
    workload, wanted = seen.queueing.workload, requested(seen, parsed, plan)
    if workload is None:
        return () if too_many(wanted) else (submission(seen.job, parsed, wanted),)
    if workload.queue != seen.job.queue or exceeds(seen, parsed, plan):
        # A Workload's requests cannot change, nor its queue while it holds quota.
        return return_quota(seen)
    if workload.is_evicted and workload.holds_quota:
        return (_requeue(workload),)
    return ()


def return_quota(seen: Observed) -> tuple[Action, ...]:
    """Delete the Workload of a job that has no pods and should have none."""
    workload = seen.queueing.workload
    return () if workload is None or seen.pods else (_deletion(workload),)


def delete_orphaned(seen: Observed) -> tuple[Action, ...]:
    """Delete the Workload of a job that has lost its label, and runs without a queue."""
    workload = seen.queueing.workload
    return (_deletion(workload),) if workload and not seen.job.queue else ()


def report_pods_ready(seen: Observed, *, is_running: bool, now: "datetime") -> tuple[Action, ...]:
    """Update condition PodsReady of an admitted Workload."""
    workload = seen.queueing.workload
    if workload is None or not workload.is_admitted:
        return ()
    known = workload.condition(kueue_api.ConditionType.PODS_READY)
    reason = _pods_ready_reason(known, is_running=is_running)
    return _update(
        workload,
        kueue_api.ConditionType.PODS_READY,
        reason=reason,
        holds=is_running,
        now=now,
        message="coordinator, trainers and enough rollouts are ready"
        if is_running
        else "not all pods are ready",
    )


def report_finished(
    seen: Observed, *, succeeded: bool, message: str, now: "datetime"
) -> tuple[Action, ...]:
    """Update condition Finished of an ended job's Workload once it has no pods; it frees quota."""
    workload = seen.queueing.workload
    if workload is None or seen.pods:
        return ()
    reason = kueue_api.Reason.SUCCEEDED if succeeded else kueue_api.Reason.FAILED
    return _update(
        workload,
        kueue_api.ConditionType.FINISHED,
        reason=reason,
        holds=True,
        now=now,
        message=message,
    )


def finding(seen: Observed, parsed: ParsedSpec, plan: Plan | None) -> tuple[Finding, ...]:
    """Return condition QuotaReserved of a job that should run, if it names a queue."""
    if not seen.job.queue:
        return ()
    if seen.queueing.off:
        label = f"label {kueue_api.QUEUE_LABEL}={seen.job.queue}"
        text = f"{label} is ignored, and the job does not wait: {seen.queueing.off}"
        return (_quota(Reason.QUEUE_IGNORED, text),)
    if not is_queued(seen.job, seen.queueing):
        return ()
    workload = seen.queueing.workload
    if workload and workload.is_admitted:
        text = f"admitted by ClusterQueue {workload.cluster_queue}"
        return (_quota(Reason.ADMITTED, text, holds=True),)
    if workload is None:
        return (_unsubmitted(seen, parsed, plan),)
    return (_pending(workload),)


def returned() -> Finding:
    """Return condition QuotaReserved of a job that should not run."""
    return _quota(Reason.QUOTA_RETURNED, "no quota is held")


def waiting_suspended(seen: Observed) -> tuple[Finding, ...]:
    """Return condition Suspended of a job that ran before and waits in its queue."""
    if condition(seen.job.status, ConditionType.SUSPENDED) is None:
        return ()
    text = "no pod is left; the job goes on when its queue admits it again"
    return (Finding(type=ConditionType.SUSPENDED, holds=True, reason=Reason.QUEUED, message=text),)


def _unsubmitted(seen: Observed, parsed: ParsedSpec, plan: Plan | None) -> Finding:
    refused = too_many(requested(seen, parsed, plan)) if plan else ""
    if refused:
        return _quota(Reason.WAITING_FOR_QUOTA, refused)
    if plan and seen.refused_write:
        return _quota(seen.refused_write.reason, seen.refused_write.message)
    wanted = "a plan, which says what the queue is asked for" if plan is None else "its Workload"
    return _quota(Reason.WAITING_FOR_QUOTA, f"the job waits for {wanted}")


def _pending(workload: WorkloadSeen) -> Finding:
    evicted = workload.condition(kueue_api.ConditionType.EVICTED)
    if not workload.is_active:
        said = f": {evicted.message}" if evicted and evicted.message else ""
        text = f"spec.active of Workload {workload.name} is false{said}"
        return _quota(Reason.DEACTIVATED, text)
    quota = workload.condition(kueue_api.ConditionType.QUOTA_RESERVED)
    if evicted and evicted.holds:
        return _taken_back(evicted, quota)
    if quota is None:
        return _quota(Reason.WAITING_FOR_QUOTA, f"waiting in LocalQueue {workload.queue}")
    if quota.holds:
        text = f"{quota.message}; its admission checks are not ready"
        return _quota(Reason.WAITING_FOR_QUOTA, text)
    return _quota(Reason.WAITING_FOR_QUOTA, quota.message)


def _taken_back(evicted: WorkloadCondition, quota: WorkloadCondition | None) -> Finding:
    """Return the reason of the eviction; it stays until the next admission."""
    preempted = evicted.reason == kueue_api.Reason.PREEMPTED
    text = evicted.message if preempted else f"{evicted.reason}: {evicted.message}"
    if quota and not quota.holds and quota.message and quota.message != evicted.message:
        text = f"{text}; waits again: {quota.message}"
    return _quota(Reason.PREEMPTED if preempted else Reason.EVICTED, text)


def _quota(reason: str, message: str, *, holds: bool = False) -> Finding:
    return Finding(type=ConditionType.QUOTA_RESERVED, holds=holds, reason=reason, message=message)


def _requeue(workload: WorkloadSeen) -> RequeueWorkload:
    """Clear an evicted Workload's admission, as Kueue's own integrations do for their jobs.

    Its condition Evicted and its place in the queue stay until the next admission.
    """
    evicted = workload.condition(kueue_api.ConditionType.EVICTED)
    assert evicted, "only an evicted Workload is requeued"
    since, words = evicted.since, evicted.message
    changed = {
        kueue_api.ConditionType.QUOTA_RESERVED: (kueue_api.Reason.PENDING, words, False),
        kueue_api.ConditionType.ADMITTED: (
            kueue_api.Reason.NO_RESERVATION,
            "The workload has no reservation",
            False,
        ),
        kueue_api.ConditionType.REQUEUED: (
            evicted.reason,
            words,
            evicted.reason in kueue_api.QUEUED_AT_ONCE,
        ),
        kueue_api.ConditionType.PODS_READY: (
            kueue_api.Reason.WAIT_FOR_START,
            "the job was evicted",
            False,
        ),
    }
    kept = [each for each in workload.conditions if each.type not in changed]
    fresh = [
        WorkloadCondition(
            type=type_,
            holds=holds,
            reason=reason,
            message=message,
            since=since,
            generation=workload.generation,
        )
        for type_, (reason, message, holds) in changed.items()
    ]
    return RequeueWorkload(
        name=workload.name,
        resource_version=workload.resource_version,
        conditions=tuple(each.body() for each in (*kept, *fresh)),
    )


def _deletion(workload: WorkloadSeen) -> Delete:
    why = "its job does not wait for this any more"
    return Delete(kind="Workload", name=workload.name, uid=workload.uid, why=why)


def _pods_ready_reason(known: WorkloadCondition | None, *, is_running: bool) -> str:
    """Return Kueue's reason for a start or for a recovery: each has its own time-out."""
    recovery = {kueue_api.Reason.WAIT_FOR_RECOVERY, kueue_api.Reason.RECOVERED}
    was_ready = known is not None and (known.holds or known.reason in recovery)
    if is_running:
        recovered = known is not None and known.reason in recovery
        return kueue_api.Reason.RECOVERED if recovered else kueue_api.Reason.STARTED
    return kueue_api.Reason.WAIT_FOR_RECOVERY if was_ready else kueue_api.Reason.WAIT_FOR_START


def _update(
    workload: WorkloadSeen, type_: str, *, reason: str, holds: bool, message: str, now: "datetime"
) -> tuple[Action, ...]:
    """Write one of our conditions if it changes, together with our others."""
    ours = (kueue_api.ConditionType.PODS_READY, kueue_api.ConditionType.FINISHED)
    written: Mapping[str, WorkloadCondition] = {
        each.type: each for each in workload.conditions if each.type in ours
    }
    known = written.get(type_)
    if known and (known.holds, known.reason) == (holds, reason):
        return ()
    since = known.since if known and known.holds == holds else now.replace(microsecond=0)
    new = WorkloadCondition(
        type=type_,
        holds=holds,
        reason=reason,
        message=message[:_MOST_CHARACTERS],
        since=since,
        generation=workload.generation,
    )
    conditions = {**written, type_: new}
    bodies = tuple(each.body() for each in conditions.values())
    return (UpdateWorkloadStatus(name=workload.name, uid=workload.uid, conditions=bodies),)


_MOST_CHARACTERS = 8192
