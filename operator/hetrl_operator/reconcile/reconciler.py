"""The reconcile loop: a worker takes a job from the queue, observes it, decides and applies.

``snapshot`` observes, ``decide`` decides and ``executor`` applies. This module says which job is
reconciled, and when it is requeued.
"""

import asyncio
import logging
import math
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from hetrl_operator.cache.informer_cache import InformerCache
from hetrl_operator.cache.missed_deletes import MissedDeletes
from hetrl_operator.cache.pending_writes import Place
from hetrl_operator.decide import decide
from hetrl_operator.decide.plan.drift import SETTLE_SECONDS
from hetrl_operator.decide.status.debounce import can_wait
from hetrl_operator.http.job_metrics import job_shown
from hetrl_operator.http.metrics import Metrics
from hetrl_operator.kube.write_results import Done, Outcome, Refused, TryAgain
from hetrl_operator.model.actions import Decision
from hetrl_operator.model.conditions import condition, has_ended, holds
from hetrl_operator.model.observed import JobSeen, Observed, ProgressSeen, RefusedWrite
from hetrl_operator.model.parse import JobKey
from hetrl_operator.model.plan_selection import active_plan, readable
from hetrl_operator.model.reasons import ConditionType, Reason
from hetrl_operator.planning.service import Planning
from hetrl_operator.reconcile.executor import Executor
from hetrl_operator.reconcile.snapshot import Observer
from hetrl_operator.reconcile.workqueue import WorkQueue
from hetrl_operator.settings import PodSettings

log = logging.getLogger(__name__)

RESYNC_SECONDS = 600.0
"""Interval after which every job is reconciled again, in case a watch lost an event."""

STATUS_MIN_INTERVAL_SECONDS = 1.0
"""Minimum time between two status writes of a job without a changed condition.

See ``decide.status.debounce``.
"""

REFUSED_RETRY_SECONDS = 15.0
"""Delay before a refused write is tried again; a user has to change something first."""

CONFLICT_RETRY_SECONDS = 1.0
"""Delay before a write is tried again whose name is about to be free; see ``Reason.CONFLICT``."""


@dataclass(slots=True)
class Controller:
    """The reconciler, with everything that a reconcile needs."""

    cache: InformerCache
    observer: Observer
    executor: Executor
    queue: WorkQueue[JobKey]
    planning: Planning
    missed_deletes: MissedDeletes
    metrics: Metrics
    pods: PodSettings
    _status_written_at: dict[str, float] = field(default_factory=dict)
    _uids: dict[JobKey, str] = field(default_factory=dict)
    _is_settling: bool = False

    def restore(self) -> None:
        """Rebuild the reservations from the cluster's plans, before the first reconcile."""
        for job in self.cache.all_jobs():
            plan = active_plan(job, readable(self.cache.plans_of(job)))
            if plan and self.observer.holds_gpus(job):
                self.planning.reservations.restore(job.uid, plan.plan)

    def report(self, key: JobKey, uid: str, progress: ProgressSeen) -> None:
        """Record a coordinator's report, and enqueue its job."""
        self.observer.progress[uid] = progress
        self.queue.add(key)

    def handle_missed_delete(self, place: Place) -> None:
        """Handle a deletion that the watch missed."""
        kind, namespace, name = place
        match kind:
            case "HetRLJob":
                self.queue.add((namespace, name))
            case "Node" | "HetRLTopology":
                self.fleet_changed()
            case _:
                owner = self.cache.owner_of(place)
                followers = self.cache.followers_of(namespace, name) if kind == "HetRLPlan" else ()
                for key in {*followers, *((owner,) if owner else ())}:
                    self.queue.add(key)

    def fleet_changed(self) -> None:
        """Enqueue jobs after a change of nodes or topologies.

        Jobs without a plan are enqueued at once. All jobs are enqueued when the fleet has settled,
        since a better plan may exist.
        """
        self.cache.fleet_changed()
        self.enqueue_unplanned()
        if not self._is_settling:
            self._is_settling = True
            asyncio.get_running_loop().call_later(SETTLE_SECONDS, self._enqueue_all)

    def _enqueue_all(self) -> None:
        self._is_settling = False
        for job in self.cache.all_jobs():
            if not has_ended(job.status):
                self.queue.add((job.namespace, job.name))

    def enqueue_unplanned(self) -> None:
        """Enqueue every job that waits for a plan, after a change of the fleet or of free GPUs."""
        for job in self.cache.all_jobs():
            if _waits_for_plan(job) and not has_ended(job.status):
                self.queue.add((job.namespace, job.name))

    def enqueue_jobs_on_node(self, node: str) -> None:
        """Enqueue the jobs that have pods on a node."""
        for key in self.cache.jobs_on(node):
            self.queue.add(key)

    async def work(self) -> None:
        """Reconcile jobs from the queue until cancelled; several workers may run at once."""
        while True:
            key = await self.queue.get()
            started = time.monotonic()
            try:
                result = await self.reconcile(key)
            except Exception:  # one job's bug must not stop the others
                log.exception("reconcile failed: job=%s/%s", *key)
                self.queue.retry(key, at_least_seconds=1.0)
                result = "error"
            finally:
                self.queue.done(key)
            self.metrics.reconciled(result=result, seconds=time.monotonic() - started)

    async def reconcile(self, key: JobKey) -> str:
        """Reconcile one job once, and return the result for the metrics."""
        job = self.cache.job(key)
        known = self._uids.get(key)
        if known and (job is None or job.uid != known):
            self._forget(key, known)
        if job is None:
            return "gone"
        self._uids[key] = job.uid
        now = datetime.now(UTC)
        # 1. Snapshot
        seen = self.observer.observe(job, now)
        # 2. Decide
        decision = decide(seen, now, self.pods)
        # 3. Delay
        decision = self._debounced(job, decision)
        # 4. Execute
        outcome = await self.executor.apply(seen, decision)
        self._show(seen)
        # 5. Requeue
        return self._requeue(key, job, decision, outcome)

    def _debounced(self, job: JobSeen, decision: Decision) -> Decision:
        """Delay a status write without a changed condition that follows another one too soon."""
        now = time.monotonic()
        if decision.status is None:
            return decision
        remaining = (
            self._status_written_at.get(job.uid, -math.inf) + STATUS_MIN_INTERVAL_SECONDS - now
        )
        if remaining > 0 and can_wait(job.status, decision):
            wake = min(remaining, decision.wake_after_seconds or remaining)
            return replace(decision, status=None, wake_after_seconds=wake)
        self._status_written_at[job.uid] = now
        return decision

    def _requeue(self, key: JobKey, job: JobSeen, decision: Decision, outcome: Outcome) -> str:
        """Requeue a job: soon after a failure, else after its wake-up time or the resync."""
        match outcome:
            case Done():
                self.observer.refused_writes.pop(job.uid, None)
                self.queue.forget(key)
                wake = decision.wake_after_seconds
                self.queue.add_after(key, min(RESYNC_SECONDS, wake or RESYNC_SECONDS))
                return "success"
            case TryAgain(message=message, after_seconds=after):
                delay = self.queue.retry(key, at_least_seconds=after)
                log.info("requeue: job=%s/%s in=%.2fs why=%s", *key, delay, message)
                return "requeue"
            case Refused(reason=reason, message=message):
                log.warning("refused: job=%s/%s reason=%s message=%s", *key, reason, message)
                known = self.observer.refused_writes.get(job.uid)
                refused_write = RefusedWrite(reason=reason, message=message)
                self.observer.refused_writes[job.uid] = refused_write
                # A new refusal is retried at once, so that the status reports it.
                passes = reason == Reason.CONFLICT
                backoff = CONFLICT_RETRY_SECONDS if passes else REFUSED_RETRY_SECONDS
                self.queue.retry(key, at_least_seconds=backoff if known == refused_write else 0.0)
                return "error"

    def _forget(self, key: JobKey, uid: str) -> None:
        """Drop the state of a deleted job."""
        self.observer.forget(uid)
        self._status_written_at.pop(uid, None)
        freed = self.planning.reservations.release(uid)
        self.planning.drop(uid)
        self.metrics.drop_job(*key)
        self.queue.drop(key)
        del self._uids[key]
        if freed:
            self.enqueue_unplanned()

    def _show(self, seen: Observed) -> None:
        job = seen.job
        shown = job_shown(
            job.status,
            plan=seen.active_plan.plan if seen.active_plan else None,
            is_paid=seen.planning.is_reserved,
        )
        self.metrics.show_job(job.namespace, job.name, shown)


def _waits_for_plan(job: JobSeen) -> bool:
    degraded = condition(job.status, ConditionType.DEGRADED)
    drifts = degraded is not None and degraded.reason in {Reason.PLAN_DRIFT, Reason.NODE_LOST}
    return drifts or not holds(job.status, ConditionType.PLANNED)


async def measure_lag(metrics: Metrics, *, every_seconds: float = 1.0) -> None:
    """Measure the event loop's lag until cancelled; a blocked loop misses watches and probes."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + every_seconds
        await asyncio.sleep(every_seconds)
        metrics.loop_lag.set(max(0.0, loop.time() - due))
