"""The rounds: a worker takes a job from the queue, observes, decides, applies.

Nothing is remembered here between rounds but what is not worth an object: reports of
coordinators and refusals of the API server.
"""

import asyncio
import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    RequeueWorkload,
    ReserveGpus,
    StartPlanning,
    SubmitWorkload,
    TellWorkload,
    WriteStatus,
    steps,
)
from hetrl_operator.apply import Done, Outcome, Refused, TryAgain, Writer
from hetrl_operator.census import Census
from hetrl_operator.decide import decide
from hetrl_operator.decide.conditions import condition, holds
from hetrl_operator.decide.drift import SETTLE_SECONDS, drift
from hetrl_operator.decide.plans import newest
from hetrl_operator.decide.queueing import answered_plans, is_ours, is_queued, waits
from hetrl_operator.decide.telling import can_wait
from hetrl_operator.job_metrics import job_shown
from hetrl_operator.ledger import gpus_by_machine
from hetrl_operator.metrics import Metrics
from hetrl_operator.nodes import Tolerations
from hetrl_operator.observe import JobKey, child_seen, job_seen, plan_seen, pod_seen
from hetrl_operator.observed import (
    FleetSeen,
    JobSeen,
    NodesSeen,
    Observed,
    PlanningSeen,
    PlanSeen,
    ProgressSeen,
    WriteTrouble,
)
from hetrl_operator.planning import Planning, planning_key
from hetrl_operator.queue import WorkQueue
from hetrl_operator.queueing.admission import NOT_STARTED, QueueingSeen, workload_seen
from hetrl_operator.queueing.workload import flavor_keys
from hetrl_operator.reasons import ConditionType, Reason
from hetrl_operator.recent import FORGOTTEN_AFTER_SECONDS, Place
from hetrl_operator.settings import PodSettings
from hetrl_operator.views import CHILD_KINDS, Views

log = logging.getLogger(__name__)

RESYNC_SECONDS = 600.0
"""After so long every job is looked at again, should a watch have lost an event."""

TOLD_EVERY_SECONDS = 1.0
"""Between two statuses of a job in which nothing but the number of its pods has changed."""

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
    queues_off: str = NOT_STARTED
    """Why labels of queues mean nothing; empty: they do."""

    _progress: dict[str, ProgressSeen] = field(default_factory=dict)
    _troubles: dict[str, WriteTrouble] = field(default_factory=dict)
    _told_at: dict[str, float] = field(default_factory=dict)
    _uids: dict[JobKey, str] = field(default_factory=dict)
    _is_ready: bool = False
    _is_settling: bool = False

    def restore(self) -> None:
        """Rebuild the reservations from what stands in the cluster, before the first round."""
        if self._is_ready:
            return
        self._is_ready = True
        for job in self.views.all_jobs():
            plans = self.views.plans_of(job)
            queueing = self._queueing(job)
            has_pods = bool(self.views.pods_of(job))
            if plans and _holds_gpus(job, queueing, has_pods=has_pods):
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
                self.fleet_changed()
            case _:
                owner = self.views.owner_of(place)
                if owner:
                    self.queue.add(owner)

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
            if not _has_ended(job):
                self.queue.add((job.namespace, job.name))

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
        decision = self._paced(job, decide(seen, now, self.pods))
        outcome = await self._apply(seen, decision)
        self._show(seen)
        return self._again(key, job, decision, outcome)

    def _observe(self, job: JobSeen, now: datetime) -> Observed:
        plans, pods = self.views.plans_of(job), self.views.pods_of(job)
        machines = {name for each in plans for name in gpus_by_machine(each.plan)}
        used = {*machines, *(pod.node for pod in pods if pod.node)}
        nodes = NodesSeen(
            lost=self.views.lost_nodes(used, now),
            leaving=self.views.leaving_nodes(used, _tolerations(job), pods),
        )
        plan = newest(plans)
        fleet = self.planning.fleet(job, plan, now)
        queueing = self._queueing(job)
        on_paper = waits(job, queueing)
        base = "" if on_paper else _base(job, plan, nodes, fleet, now)
        planning = self.planning.seen(job, plan, base=base, on_paper=on_paper)
        return Observed(
            job=job,
            planning=planning,
            queueing=self._with_labels(job, queueing, plans, planning),
            plans=plans,
            children=self.views.children_of(job),
            pods=pods,
            hostnames=self.views.hostnames(machines),
            lost_nodes=nodes.lost,
            leaving=nodes.leaving,
            fleet=fleet,
            progress=self._progress.get(job.uid),
            trouble=self._troubles.get(job.uid),
        )

    def _queueing(self, job: JobSeen) -> QueueingSeen:
        return QueueingSeen(off=self.queues_off, workload=self.views.workload_of(job))

    def _with_labels(
        self,
        job: JobSeen,
        queueing: QueueingSeen,
        plans: Sequence[PlanSeen],
        planning: PlanningSeen,
    ) -> QueueingSeen:
        """Add what flavors are told apart by, of the machines that a job may come to stand on."""
        if job.wish is None or not is_queued(job, queueing):
            return queueing
        known = (*(each.plan for each in plans), *answered_plans(planning.answer))
        machines = {name for each in known for name in gpus_by_machine(each)}
        labels = self.views.labels(machines, flavor_keys(job.wish))
        return replace(queueing, machine_labels=labels)

    def _paced(self, job: JobSeen, decision: Decision) -> Decision:
        """Leave a status to a later round that only counts pods, and was just told."""
        status, now = decision.status, time.monotonic()
        if status is None:
            return decision
        left = self._told_at.get(job.uid, -math.inf) + TOLD_EVERY_SECONDS - now
        if left > 0 and can_wait(job.status, status.status):
            wake = min(left, decision.wake_after_seconds or left)
            return replace(decision, status=None, wake_after_seconds=wake)
        self._told_at[job.uid] = now
        return decision

    async def _apply(self, seen: Observed, decision: Decision) -> Outcome:
        """Carry out a decision up to the first step that fails."""
        first = decision.status
        outcome = await self._perform(seen, first) if first else Done(object={})
        if not isinstance(outcome, Done):
            return outcome
        self._count_replan(seen, decision)
        # Events tell what is on record now; what follows need not wait until they are told.
        async with asyncio.TaskGroup() as group:
            group.create_task(self._announce(seen, decision))
            carried_out = group.create_task(self._carry_out(seen, decision.actions))
        return carried_out.result()

    async def _carry_out(self, seen: Observed, actions: Sequence[Action]) -> Outcome:
        outcome: Outcome = Done(object={})
        for step in steps(actions):
            outcomes = await asyncio.gather(*(self._perform(seen, each) for each in step))
            if any(isinstance(each, Done) and each.object for each in outcomes):
                # What fails after this is no longer what failed before: twenty writes of which
                # each fails once must not wait as long as one that fails twenty times.
                self.queue.forget((seen.job.namespace, seen.job.name))
            outcome = next((each for each in outcomes if not isinstance(each, Done)), outcomes[0])
            if not isinstance(outcome, Done):
                return outcome
        self._troubles.pop(seen.job.uid, None)
        return outcome

    def _count_replan(self, seen: Observed, decision: Decision) -> None:
        last = decision.status.status.last_replan if decision.status else None
        if last and last != seen.job.status.last_replan:
            self.metrics.replanned(reason=last.reason, outcome=last.outcome)

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
        # Should the watches not show it, what they do show counts from then on.
        self.queue.add_after((job.namespace, job.name), FORGOTTEN_AFTER_SECONDS + 1)

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
        self._told_at.pop(uid, None)
        self.planning.drop(uid)
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


def _base(
    job: JobSeen, plan: PlanSeen | None, nodes: NodesSeen, fleet: FleetSeen, now: datetime
) -> str:
    """Return what another plan is wanted for while one is in force; empty where none is."""
    if plan is None or job.wish is None:
        return ""
    key = planning_key(job.wish)
    found = drift(job, plan, spec_key=key, nodes=nodes, fleet=fleet, now=now)
    return found.base if found else ""


def _tolerations(job: JobSeen) -> Tolerations:
    return job.wish.written.runtime.pod_template.tolerations if job.wish else ()


def _has_ended(job: JobSeen) -> bool:
    return any(holds(job.status, each) for each in (ConditionType.COMPLETE, ConditionType.FAILED))


def _holds_gpus(job: JobSeen, queueing: QueueingSeen, *, has_pods: bool) -> bool:
    """Tell whether a job's plan counts as reserved when we start."""
    if has_pods:
        return True
    if job.wish is None or _has_ended(job) or job.wish.written.suspend:
        return False
    if not is_ours(job) or waits(job, queueing):
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
        case SubmitWorkload() | RequeueWorkload() | TellWorkload():
            return "Workload"
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
    if kind == "Workload":
        return workload_seen(body)
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
