"""The rounds: a worker takes a job from the queue, observes, decides, applies.

Nothing is remembered here between rounds but what is not worth an object: reports of
coordinators and refusals of the API server.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from hetrl_api.planning import PlanningMode
from hetrl_operator.actions import (
    Action,
    Apply,
    Decision,
    Delete,
    LiftGate,
    ReleaseGpus,
    ReserveGpus,
    StartPlanning,
    WriteStatus,
)
from hetrl_operator.apply import Done, Outcome, Refused, TryAgain, Writer
from hetrl_operator.census import Census
from hetrl_operator.decide import decide
from hetrl_operator.decide.conditions import condition, holds
from hetrl_operator.decide.drift import drift
from hetrl_operator.decide.plans import newest
from hetrl_operator.job_metrics import job_shown
from hetrl_operator.labels import ConditionType, Reason
from hetrl_operator.metrics import Metrics
from hetrl_operator.observe import JobKey, child_seen, job_seen, plan_seen, pod_seen
from hetrl_operator.observed import JobSeen, Observed, PlanSeen, ProgressSeen, WriteTrouble
from hetrl_operator.planning import Planning, planning_key
from hetrl_operator.queue import WorkQueue
from hetrl_operator.recent import Place
from hetrl_operator.settings import PodSettings
from hetrl_operator.views import CHILD_KINDS, Views

log = logging.getLogger(__name__)

RESYNC_SECONDS = 600.0
"""After so long every job is looked at again, should a watch have lost an event."""

REFUSED_RETRY_SECONDS = 15.0
"""Until a write is tried again that somebody must first make possible."""


@dataclass(slots=True)
class Controller:
    """Everything that one round needs."""

    views: Views
    census: Census
    queue: WorkQueue[JobKey]
    planning: Planning
    writer: Writer
    metrics: Metrics
    pods: PodSettings
    _progress: dict[str, ProgressSeen] = field(default_factory=dict)
    _troubles: dict[str, WriteTrouble] = field(default_factory=dict)
    _uids: dict[JobKey, str] = field(default_factory=dict)
    _is_ready: bool = False

    def restore(self) -> None:
        """Rebuild the reservations from what stands in the cluster, before the first round."""
        if self._is_ready:
            return
        self._is_ready = True
        for job in self.views.all_jobs():
            plans = self.views.plans_of(job)
            if plans and _holds_gpus(job, has_pods=bool(self.views.pods_of(job))):
                last = newest(plans)
                assert last, "of several plans one is the last"
                self.planning.ledger.restore(job.uid, last.plan)

    def report(self, key: JobKey, uid: str, progress: ProgressSeen) -> None:
        """Take a coordinator's report."""
        self._progress[uid] = progress
        self.queue.add(key)

    def left(self, place: Place) -> None:
        """Take that an object is gone, of which no watch has told."""
        kind, namespace, name = place
        match kind:
            case "HetRLJob":
                self.queue.add((namespace, name))
            case "Node" | "HetRLTopology":
                self.views.fleet_changed()
                self.look_at_unplanned()
            case _:
                owner = self.views.owner_of(place)
                if owner:
                    self.queue.add(owner)

    def look_at_unplanned(self) -> None:
        """Have every job looked at that waits for a plan: the fleet, or what is free, changed."""
        for job in self.views.all_jobs():
            if _waits_for_plan(job) and not _has_ended(job):
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
        seen = self._observe(job, now)
        decision = decide(seen, now, self.pods)
        outcome = await self._apply(seen, decision)
        self._show(seen)
        return self._again(key, job, decision, outcome)

    def _observe(self, job: JobSeen, now: datetime) -> Observed:
        plans, pods = self.views.plans_of(job), self.views.pods_of(job)
        machines = {
            share.machine
            for plan in plans
            for group in plan.plan.groups
            for replica in group.replicas
            for share in replica.shares
        }
        lost = self.views.lost_nodes({*machines, *(pod.node for pod in pods if pod.node)}, now)
        plan = newest(plans)
        return Observed(
            job=job,
            planning=self.planning.seen(job, plan, base=_base(job, plan, lost, now)),
            plans=plans,
            children=self.views.children_of(job),
            pods=pods,
            hostnames=self.views.hostnames(machines),
            lost_nodes=lost,
            progress=self._progress.get(job.uid),
            trouble=self._troubles.get(job.uid),
        )

    async def _apply(self, seen: Observed, decision: Decision) -> Outcome:
        """Carry out a decision up to the first action that fails."""
        first = decision.status
        outcome = await self._perform(seen, first) if first else Done(object={})
        if isinstance(outcome, Done):
            await self._announce(seen, decision)
        for action in decision.actions:
            if not isinstance(outcome, Done):
                return outcome
            outcome = await self._perform(seen, action)
        if isinstance(outcome, Done):
            self._troubles.pop(seen.job.uid, None)
        return outcome

    async def _announce(self, seen: Observed, decision: Decision) -> None:
        """Tell what has turned, once the status that says so is written."""
        for event in decision.events:
            log.info(
                "event: job=%s/%s reason=%s message=%s",
                seen.job.namespace, seen.job.name, event.reason, event.message,
            )  # fmt: skip
            await self.writer.announce(seen.job, event)

    async def _perform(self, seen: Observed, action: Action | WriteStatus) -> Outcome:
        job, wish = seen.job, seen.job.wish
        match action:
            case StartPlanning():
                assert wish, "only a valid job is planned"
                self.planning.start(job, wish, action)
                return Done(object={})
            case ReserveGpus(plan=plan):
                assert wish, "only a valid job has a plan"
                conflict = self.planning.reserve(job, wish, plan)
                return TryAgain(message=conflict) if conflict else Done(object={})
            case ReleaseGpus():
                self.planning.ledger.release(job.uid)
                self.look_at_unplanned()
                return Done(object={})
            case _:
                outcome = await self.writer.perform(job, action, _child(seen, action))
                self._remember(seen, outcome)
                if isinstance(outcome, Done | TryAgain) and outcome.is_missing:
                    self.census.doubt(_kind(action))
                return outcome

    def _remember(self, seen: Observed, outcome: Outcome) -> None:
        """Keep what we wrote until the watches show it."""
        if not isinstance(outcome, Done) or not outcome.object:
            return
        body, job = outcome.object, seen.job
        kind = body.get("kind", "")
        place = (kind, job.namespace, body.get("metadata", {}).get("name", ""))
        version = body.get("metadata", {}).get("resourceVersion", "0")
        value = _read(kind, body)
        if value is None:
            return
        owned = value if isinstance(value, JobSeen) else (job.uid, value)
        self.views.recent.wrote(place, owned, resource_version=version)

    def _again(self, key: JobKey, job: JobSeen, decision: Decision, outcome: Outcome) -> str:
        """See to it that a job is looked at again, soon if something went wrong."""
        match outcome:
            case Done():
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
                known = self._troubles.get(job.uid)
                trouble = WriteTrouble(reason=reason, message=message)
                self._troubles[job.uid] = trouble
                # At once when it is news, so that the status says so.
                pause = REFUSED_RETRY_SECONDS if known == trouble else 0.0
                self.queue.retry(key, at_least_seconds=pause)
                return "error"

    def _forget(self, key: JobKey, uid: str) -> None:
        """Drop what we know of a job that is gone."""
        self._progress.pop(uid, None)
        self._troubles.pop(uid, None)
        self.planning.forget(uid)
        self.metrics.drop_job(*key)
        self.queue.drop(key)
        del self._uids[key]
        if self.planning.ledger.release(uid):
            self.look_at_unplanned()

    def _show(self, seen: Observed) -> None:
        job = seen.job
        plan = newest(seen.plans)
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


def _base(job: JobSeen, plan: PlanSeen | None, lost: Mapping[str, datetime], now: datetime) -> str:
    """Return what another plan is wanted for while one is in force; empty where none is."""
    if plan is None or job.wish is None:
        return ""
    found = drift(job, plan, spec_key=planning_key(job.wish), lost_nodes=lost, now=now)
    return found.base if found else ""


def _has_ended(job: JobSeen) -> bool:
    return any(holds(job.status, each) for each in (ConditionType.COMPLETE, ConditionType.FAILED))


def _holds_gpus(job: JobSeen, *, has_pods: bool) -> bool:
    """Tell whether a job's plan counts as reserved when we start."""
    if has_pods:
        return True
    if job.wish is None or _has_ended(job) or job.wish.written.suspend:
        return False
    return job.wish.written.planning.mode is not PlanningMode.PLAN_ONLY


def _child(seen: Observed, action: Action | WriteStatus) -> Any:
    if not isinstance(action, Apply):
        return None
    kind, name = action.manifest["kind"], action.manifest["metadata"]["name"]
    return next((each for each in seen.children if (each.kind, each.name) == (kind, name)), None)


def _kind(action: Action | WriteStatus) -> str:
    match action:
        case Apply(manifest=manifest):
            return str(manifest["kind"])
        case Delete(kind=kind):
            return kind
        case LiftGate():
            return "Pod"
        case _:
            return "HetRLJob"


def _read(kind: str, body: Mapping[str, Any]) -> Any:
    """Read what the API server answered to a write, as the watches would show it."""
    if kind in CHILD_KINDS:
        return child_seen(kind, body)
    if kind == "Pod":
        return pod_seen(body)
    if kind == "HetRLPlan":
        return plan_seen(body)
    if kind == "HetRLJob":
        return job_seen(body)
    return None


async def measure_lag(metrics: Metrics, *, every_seconds: float = 1.0) -> None:
    """Measure for ever how late the event loop is; a blocked loop misses watches and probes."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + every_seconds
        await asyncio.sleep(every_seconds)
        metrics.loop_lag.set(max(0.0, loop.time() - due))
