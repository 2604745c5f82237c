"""The executor: it applies a decision's status first, then its actions step by step.

``decide`` decides, ``kube.writer`` writes objects, and ``planning`` makes plans. The reconciler
handles failed steps.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hetrl_operator.cache.informer_cache import CHILD_KINDS
from hetrl_operator.cache.missed_deletes import MissedDeletes
from hetrl_operator.cache.pending_writes import FORGOTTEN_AFTER_SECONDS, PendingWrites
from hetrl_operator.http.metrics import Metrics
from hetrl_operator.kube.write_results import Done, Outcome, TryAgain
from hetrl_operator.kube.writer import Writer
from hetrl_operator.model.actions import (
    Action,
    AnnotatePlan,
    Apply,
    Decision,
    Delete,
    ReleaseGpus,
    RemoveSchedulingGate,
    RequeueWorkload,
    ReserveGpus,
    StartPlanning,
    SubmitWorkload,
    UpdateWorkloadStatus,
    WriteStatus,
    steps,
)
from hetrl_operator.model.kueue.admission import workload_seen
from hetrl_operator.model.observed import Observed
from hetrl_operator.model.parse import (
    JobKey,
    child_seen,
    job_seen,
    plan_seen,
    pod_seen,
    preflight_pod_seen,
)
from hetrl_operator.planning.service import Planning
from hetrl_operator.reconcile.workqueue import WorkQueue

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """The executor of decisions."""

    writer: Writer
    planning: Planning
    pending_writes: PendingWrites[Any]
    missed_deletes: MissedDeletes
    queue: WorkQueue[JobKey]
    metrics: Metrics
    on_gpus_freed: Callable[[], None]
    """Called when GPUs become free that other jobs may wait for."""

    async def apply(self, seen: Observed, decision: Decision) -> Outcome:
        """Apply a decision up to the first step that fails."""
        first = decision.status
        outcome = await self._do(seen, first) if first else Done(object={})
        if not isinstance(outcome, Done):
            return outcome
        self._count_replan(seen, decision)
        # Events report the status that is now written; actions need not wait for them.
        async with asyncio.TaskGroup() as group:
            group.create_task(self._announce(seen, decision))
            applied = group.create_task(self._act(seen, decision.actions))
        return applied.result()

    async def _act(self, seen: Observed, actions: Sequence[Action]) -> Outcome:
        outcome: Outcome = Done(object={})
        for step in steps(actions):
            outcomes = await asyncio.gather(*(self._do(seen, each) for each in step))
            if any(isinstance(each, Done) and each.object for each in outcomes):
                # A later failure is another one: twenty writes that each fail once must not wait
                # as long as one write that fails twenty times.
                self.queue.forget((seen.job.namespace, seen.job.name))
            outcome = next((each for each in outcomes if not isinstance(each, Done)), outcomes[0])
            if not isinstance(outcome, Done):
                return outcome
        return outcome

    def _count_replan(self, seen: Observed, decision: Decision) -> None:
        last = decision.status.status.last_replan if decision.status else None
        if last and last != seen.job.status.last_replan:
            self.metrics.replanned(reason=last.reason, outcome=last.outcome)

    async def _announce(self, seen: Observed, decision: Decision) -> None:
        """Write the events of changed conditions, after their status is written."""
        for event in decision.events:
            log.info(
                "event: job=%s/%s reason=%s message=%s",
                seen.job.namespace,
                seen.job.name,
                event.reason,
                event.message,
            )
            await self.writer.announce(seen.job, event)

    async def _do(self, seen: Observed, action: Action | WriteStatus) -> Outcome:
        job, parsed = seen.job, seen.job.parsed
        match action:
            case StartPlanning():
                assert parsed, "only a valid job is planned"
                self.planning.start(job, parsed, action)
                return Done(object={})
            case ReserveGpus(plan=plan):
                assert parsed, "only a valid job has a plan"
                conflict = self.planning.reserve(job, parsed, plan)
                return TryAgain(message=conflict) if conflict else Done(object={})
            case ReleaseGpus():
                self.planning.reservations.release(job.uid)
                self.on_gpus_freed()
                return Done(object={})
            case _:
                outcome = await self.writer.apply(job, action, _child(seen, action))
                self._remember(seen, outcome)
                if isinstance(outcome, Done | TryAgain) and outcome.is_missing:
                    self.missed_deletes.suspect(_kind(action))
                return outcome

    def _remember(self, seen: Observed, outcome: Outcome) -> None:
        """Store a write as pending until the watches show it."""
        if not isinstance(outcome, Done) or not outcome.object:
            return
        body, job = outcome.object, seen.job
        kind = body.get("kind", "")
        place = (kind, job.namespace, body.get("metadata", {}).get("name", ""))
        version = body.get("metadata", {}).get("resourceVersion", "0")
        value = _read(kind, body)
        if value is None:
            return
        self.pending_writes.wrote(place, value, owner=job.uid, resource_version=version)
        # If the watches do not show it by then, the watches' state counts.
        self.queue.add_after((job.namespace, job.name), FORGOTTEN_AFTER_SECONDS + 1)


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
        case AnnotatePlan():
            return "HetRLPlan"
        case RemoveSchedulingGate():
            return "Pod"
        case SubmitWorkload() | RequeueWorkload() | UpdateWorkloadStatus():
            return "Workload"
        case _:
            return "HetRLJob"


def _read(kind: str, body: Mapping[str, Any]) -> Any:
    """Read the object in a write's response, as the informer cache holds it."""
    if kind in CHILD_KINDS:
        return child_seen(kind, body)
    if kind == "Pod":
        return pod_seen(body) or preflight_pod_seen(body)
    if kind == "HetRLPlan":
        return plan_seen(body)
    if kind == "Workload":
        return workload_seen(body)
    if kind == "HetRLJob":
        return job_seen(body)
    return None
