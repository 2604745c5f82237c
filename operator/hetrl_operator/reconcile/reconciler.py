"""The rounds: a worker takes a job from the queue, has it observed, decides, has it carried out.

What is seen of a job is left to ``observer``, what follows to ``decide``, doing it to
``performer``; here is said which job is looked at, and when again.
"""

import asyncio
import logging
import math
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from hetrl_operator.cache.informer_cache import Views
from hetrl_operator.cache.missed_deletes import Census
from hetrl_operator.cache.pending_writes import Place
from hetrl_operator.decide import decide
from hetrl_operator.decide.plan.active_plan import in_force, readable
from hetrl_operator.decide.plan.drift import SETTLE_SECONDS
from hetrl_operator.decide.status.debounce import can_wait
from hetrl_operator.http.job_metrics import job_shown
from hetrl_operator.http.metrics import Metrics
from hetrl_operator.kube.write_results import Done, Outcome, Refused, TryAgain
from hetrl_operator.model.actions import Decision
from hetrl_operator.model.conditions import condition, has_ended, holds
from hetrl_operator.model.observed import JobSeen, Observed, ProgressSeen, WriteTrouble
from hetrl_operator.model.parse import JobKey
from hetrl_operator.model.reasons import ConditionType, Reason
from hetrl_operator.planning.service import Planning
from hetrl_operator.reconcile.executor import Performer
from hetrl_operator.reconcile.snapshot import Observer
from hetrl_operator.reconcile.workqueue import WorkQueue
from hetrl_operator.settings import PodSettings

log = logging.getLogger(__name__)

RESYNC_SECONDS = 600.0
"""After so long every job is looked at again, should a watch have lost an event."""

TOLD_EVERY_SECONDS = 1.0
"""Between two statuses of a job by which nothing has turned; see ``decide.telling``."""

REFUSED_RETRY_SECONDS = 15.0
"""Until a write is tried again that somebody must first make possible."""

CONFLICT_RETRY_SECONDS = 1.0
"""The same where the name of an object is about to be free; see ``Reason.CONFLICT``."""


@dataclass(slots=True)
class Controller:
    """Everything that one round needs."""

    views: Views
    observer: Observer
    performer: Performer
    queue: WorkQueue[JobKey]
    planning: Planning
    census: Census
    metrics: Metrics
    pods: PodSettings
    _told_at: dict[str, float] = field(default_factory=dict)
    _uids: dict[JobKey, str] = field(default_factory=dict)
    _is_settling: bool = False

    def restore(self) -> None:
        """Rebuild the reservations from what stands in the cluster, before the first round."""
        for job in self.views.all_jobs():
            plan = in_force(job, readable(self.views.plans_of(job)))
            if plan and self.observer.holds_gpus(job):
                self.planning.ledger.restore(job.uid, plan.plan)

    def report(self, key: JobKey, uid: str, progress: ProgressSeen) -> None:
        """Take a coordinator's report."""
        self.observer.progress[uid] = progress
        self.queue.add(key)

    def left(self, place: Place) -> None:
        """Take that an object is gone, of which no watch has told."""
        kind, namespace, name = place
        match kind:
            case "HetRLJob":
                self.queue.add((namespace, name))
            case "Node" | "HetRLTopology":
                self.fleet_changed()
            case _:
                owner = self.views.owner_of(place)
                followers = self.views.followers_of(namespace, name) if kind == "HetRLPlan" else ()
                for key in {*followers, *((owner,) if owner else ())}:
                    self.queue.add(key)

    def fleet_changed(self) -> None:
        """Have jobs looked at because nodes or topologies are others.

        At once those that wait for a plan; all, for a better one, when the fleet has settled.
        """
        self.views.fleet_changed()
        self.look_at_unplanned()
        if not self._is_settling:
            self._is_settling = True
            asyncio.get_running_loop().call_later(SETTLE_SECONDS, self._look_at_all)

    def _look_at_all(self) -> None:
        self._is_settling = False
        for job in self.views.all_jobs():
            if not has_ended(job.status):
                self.queue.add((job.namespace, job.name))

    def look_at_unplanned(self) -> None:
        """Have every job looked at that waits for a plan: the fleet, or what is free, changed."""
        for job in self.views.all_jobs():
            if _waits_for_plan(job) and not has_ended(job.status):
                self.queue.add((job.namespace, job.name))

    def look_at_jobs_on(self, node: str) -> None:
        """Have the jobs looked at that have pods on a node, or a place for one."""
        for key in self.views.jobs_on(node):
            self.queue.add(key)

    async def work(self) -> None:
        """Work on jobs for ever; several of these may run at once."""
        while True:
            key = await self.queue.get()
            started = time.monotonic()
            try:
                result = await self._round(key)
            except Exception:  # one job's bug must not stop the others
                log.exception("round failed: job=%s/%s", *key)
                self.queue.retry(key, at_least_seconds=1.0)
                result = "error"
            finally:
                self.queue.done(key)
            self.metrics.reconciled(result=result, seconds=time.monotonic() - started)

    async def _round(self, key: JobKey) -> str:
        job = self.views.job(key)
        known = self._uids.get(key)
        if known and (job is None or job.uid != known):
            self._forget(key, known)
        if job is None:
            return "gone"
        self._uids[key] = job.uid
        now = datetime.now(UTC)
        seen = self.observer.observe(job, now)
        decision = self._paced(job, decide(seen, now, self.pods))
        outcome = await self.performer.carry_out(seen, decision)
        self._show(seen)
        return self._again(key, job, decision, outcome)

    def _paced(self, job: JobSeen, decision: Decision) -> Decision:
        """Leave a status to a later round in which nothing has turned, and that was just told."""
        now = time.monotonic()
        if decision.status is None:
            return decision
        left = self._told_at.get(job.uid, -math.inf) + TOLD_EVERY_SECONDS - now
        if left > 0 and can_wait(job.status, decision):
            wake = min(left, decision.wake_after_seconds or left)
            return replace(decision, status=None, wake_after_seconds=wake)
        self._told_at[job.uid] = now
        return decision

    def _again(self, key: JobKey, job: JobSeen, decision: Decision, outcome: Outcome) -> str:
        """See to it that a job is looked at again, soon if something went wrong."""
        match outcome:
            case Done():
                self.observer.troubles.pop(job.uid, None)
                self.queue.forget(key)
                wake = decision.wake_after_seconds
                self.queue.add_after(key, min(RESYNC_SECONDS, wake or RESYNC_SECONDS))
                return "success"
            case TryAgain(message=message, after_seconds=after):
                delay = self.queue.retry(key, at_least_seconds=after)
                log.info("again: job=%s/%s in=%.2fs why=%s", *key, delay, message)
                return "requeue"
            case Refused(reason=reason, message=message):
                log.warning("refused: job=%s/%s reason=%s message=%s", *key, reason, message)
                known = self.observer.troubles.get(job.uid)
                trouble = WriteTrouble(reason=reason, message=message)
                self.observer.troubles[job.uid] = trouble
                # At once when it is news, so that the status says so.
                passes = reason == Reason.CONFLICT
                pause = CONFLICT_RETRY_SECONDS if passes else REFUSED_RETRY_SECONDS
                self.queue.retry(key, at_least_seconds=pause if known == trouble else 0.0)
                return "error"

    def _forget(self, key: JobKey, uid: str) -> None:
        """Drop what we know of a job that is gone."""
        self.observer.forget(uid)
        self._told_at.pop(uid, None)
        self.planning.drop(uid)
        self.metrics.drop_job(*key)
        self.queue.drop(key)
        del self._uids[key]
        if self.planning.ledger.release(uid):
            self.look_at_unplanned()

    def _show(self, seen: Observed) -> None:
        job = seen.job
        plan = in_force(seen.job, seen.plans)
        shown = job_shown(
            job.status,
            plan=plan.plan if plan else None,
            is_paid=seen.planning.is_reserved,
        )
        self.metrics.show_job(job.namespace, job.name, shown)


def _waits_for_plan(job: JobSeen) -> bool:
    degraded = condition(job.status, ConditionType.DEGRADED)
    drifts = degraded is not None and degraded.reason in {Reason.PLAN_DRIFT, Reason.NODE_LOST}
    return drifts or not holds(job.status, ConditionType.PLANNED)


async def measure_lag(metrics: Metrics, *, every_seconds: float = 1.0) -> None:
    """Measure for ever how late the event loop is; a blocked loop misses watches and probes."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + every_seconds
        await asyncio.sleep(every_seconds)
        metrics.loop_lag.set(max(0.0, loop.time() - due))
