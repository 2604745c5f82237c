"""The snapshot that a reconcile decides about: one job and what bears on it, as a frozen value.

``model.parse`` reads single objects, and ``decide`` decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from hetrl_api.job.planning import PlanningMode
from hetrl_core.plan.pod_sets import PodSet, pod_sets
from hetrl_operator.cache.informer_cache import InformerCache
from hetrl_operator.model.conditions import has_ended, holds
from hetrl_operator.model.kueue.admission import QueueingSeen
from hetrl_operator.model.kueue.queueing import is_ours, is_queued, waits
from hetrl_operator.model.nodes import Tolerations
from hetrl_operator.model.observed import (
    JobSeen,
    NodesSeen,
    Observed,
    PodSeen,
    ProgressSeen,
    RefusedWrite,
)
from hetrl_operator.model.plan_selection import active_plan, named, readable
from hetrl_operator.model.planning import PlanningSeen, PlanSeen
from hetrl_operator.model.pods import present
from hetrl_operator.model.reasons import ConditionType
from hetrl_operator.planning.reservations import gpus_by_machine
from hetrl_operator.planning.service import Planning
from hetrl_operator.render.kueue_workload import flavor_keys


@dataclass(slots=True)
class Observer:
    """The maker of snapshots.

    It also keeps in-memory state by the job's uid, which no Kubernetes object stores.
    """

    cache: InformerCache
    planning: Planning
    queues_off: str
    """Why queue labels are ignored; empty: they are not."""

    progress: dict[str, ProgressSeen] = field(default_factory=dict)
    """The coordinators' last reports."""

    refused_writes: dict[str, RefusedWrite] = field(default_factory=dict)
    """Writes that the API server refused, until a reconcile succeeds."""

    def observe(self, job: JobSeen, now: datetime) -> Observed:
        """Return the snapshot of a job."""
        found, pods = self.cache.plans_of(job), self.cache.pods_of(job)
        plans, manual_plan = readable(found), named(job, found)
        machines = {name for each in plans for name in gpus_by_machine(each.plan)}
        used = {*machines, *(pod.node for pod in pods if pod.node)}
        nodes = NodesSeen(
            lost=self.cache.lost_nodes(used, now),
            leaving=self.cache.leaving_nodes(used, _tolerations(job), pods),
        )
        plan = active_plan(job, plans)
        sets = pod_sets(plan.plan) if plan else ()
        crowded = self.cache.crowded(used, pods, nodes, now)
        full_machines = self.planning.full_machines.observe(
            job.uid, pods, crowded, now, is_placed=is_placed(job, sets, pods)
        )
        queueing = self._queueing(job)
        planning = self.planning.seen(
            job,
            plan,
            unreserved=waits(job, queueing),
            manual_plan=manual_plan if isinstance(manual_plan, PlanSeen) else None,
        )
        return Observed(
            job=job,
            planning=planning,
            queueing=self._with_labels(job, queueing, plans, planning),
            plans=plans,
            active_plan=plan,
            pod_sets=sets,
            manual_plan=manual_plan,
            children=self.cache.children_of(job),
            pods=pods,
            hostnames=self.cache.hostnames(machines),
            lost_nodes=nodes.lost,
            leaving=nodes.leaving,
            full_machines=full_machines,
            fleet=self.planning.fleet(job, plan, now),
            machines=() if pods else self.planning.machines(job),
            preflight_pod=self.cache.preflight_pod_of(job),
            progress=self.progress.get(job.uid),
            refused_write=self.refused_writes.get(job.uid),
        )

    def holds_gpus(self, job: JobSeen) -> bool:
        """Tell whether a job's plan counts as reserved when the operator starts."""
        if self.cache.pods_of(job):
            return True
        if job.parsed is None or has_ended(job.status) or job.parsed.written.suspend:
            return False
        if not is_ours(job) or waits(job, self._queueing(job)):
            return False
        return job.parsed.written.planning.mode is not PlanningMode.PLAN_ONLY

    def forget(self, uid: str) -> None:
        """Drop the state of a deleted job."""
        self.progress.pop(uid, None)
        self.refused_writes.pop(uid, None)

    def _queueing(self, job: JobSeen) -> QueueingSeen:
        return QueueingSeen(off=self.queues_off, workload=self.cache.workload_of(job))

    def _with_labels(
        self,
        job: JobSeen,
        queueing: QueueingSeen,
        plans: Sequence[PlanSeen],
        planning: PlanningSeen,
    ) -> QueueingSeen:
        """Add the labels that distinguish flavors, of machines that the job may use."""
        if job.parsed is None or not is_queued(job, queueing):
            return queueing
        known = (*(each.plan for each in plans), *planning.offered_plans)
        machines = {name for each in known for name in gpus_by_machine(each)}
        labels = self.cache.labels(machines, flavor_keys(job.parsed))
        return replace(queueing, machine_labels=labels)


def is_placed(job: JobSeen, sets: Sequence[PodSet], pods: Sequence[PodSeen]) -> bool:
    """Tell whether a job runs, or each pod of its plan has a node."""
    if not sets or holds(job.status, ConditionType.RUNNING):
        return True
    bound = [pod for pod in present(pods, sets).values() if pod.node]
    return len(bound) == sum(each.num_pods for each in sets)


def _tolerations(job: JobSeen) -> Tolerations:
    return job.parsed.written.runtime.pod_template.tolerations if job.parsed else ()
