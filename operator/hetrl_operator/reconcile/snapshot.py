"""What a round decides about: one job with all that bears on it, as one frozen value.

How a single object's body is read is left to ``observe``, what follows from it to ``decide``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from hetrl_api.job.planning import PlanningMode
from hetrl_core.plan.pod_sets import pod_sets
from hetrl_operator.cache.informer_cache import Views
from hetrl_operator.decide.kueue.queueing import answered_plans, is_ours, is_queued, waits
from hetrl_operator.decide.plan.active_plan import (
    base_of,
    in_force,
    is_given,
    named,
    readable,
    unreadable,
)
from hetrl_operator.decide.plan.drift import drift
from hetrl_operator.model.conditions import has_ended, holds
from hetrl_operator.model.kueue_admission import QueueingSeen
from hetrl_operator.model.nodes import Tolerations
from hetrl_operator.model.observed import (
    FleetSeen,
    JobSeen,
    NodesSeen,
    Observed,
    PlanningSeen,
    PlanSeen,
    PodSeen,
    ProgressSeen,
    WriteTrouble,
)
from hetrl_operator.model.pods import present
from hetrl_operator.model.reasons import ConditionType
from hetrl_operator.planning.reservations import gpus_by_machine
from hetrl_operator.planning.service import Planning, planning_key
from hetrl_operator.render.kueue_workload import flavor_keys


@dataclass(slots=True)
class Observer:
    """Puts together what there is to be seen of a job.

    Kept here, by the job's uid, is what is not worth an object of its own.
    """

    views: Views
    planning: Planning
    queues_off: str
    """Why labels of queues mean nothing; empty: they do."""

    progress: dict[str, ProgressSeen] = field(default_factory=dict)
    """What coordinators have reported last."""

    troubles: dict[str, WriteTrouble] = field(default_factory=dict)
    """What the API server has refused, until a round succeeds."""

    def observe(self, job: JobSeen, now: datetime) -> Observed:
        """Return what there is to be seen of a job."""
        found, pods = self.views.plans_of(job), self.views.pods_of(job)
        plans, given = readable(found), named(job, found)
        machines = {name for each in plans for name in gpus_by_machine(each.plan)}
        used = {*machines, *(pod.node for pod in pods if pod.node)}
        nodes = NodesSeen(
            lost=self.views.lost_nodes(used, now),
            leaving=self.views.leaving_nodes(used, _tolerations(job), pods),
        )
        plan = in_force(job, plans)
        crowded = self.views.crowded(used, pods, nodes, now)
        room = self.planning.room.look(
            job.uid, pods, crowded, now, is_placed=is_placed(job, plan, pods)
        )
        nodes = replace(nodes, full=room.full)
        fleet = self.planning.fleet(job, plan, now)
        queueing = self._queueing(job)
        on_paper = waits(job, queueing)
        if is_given(job):
            base = base_of(given)
        else:
            base = "" if on_paper else _base(job, plan, nodes, fleet, now)
        planning = self.planning.seen(
            job,
            plan,
            base=base,
            on_paper=on_paper,
            given=given if isinstance(given, PlanSeen) else None,
        )
        return Observed(
            job=job,
            planning=planning,
            queueing=self._with_labels(job, queueing, plans, planning),
            plans=plans,
            unreadable=unreadable(found),
            children=self.views.children_of(job),
            pods=pods,
            hostnames=self.views.hostnames(machines),
            lost_nodes=nodes.lost,
            leaving=nodes.leaving,
            room=room,
            fleet=fleet,
            progress=self.progress.get(job.uid),
            trouble=self.troubles.get(job.uid),
        )

    def holds_gpus(self, job: JobSeen) -> bool:
        """Tell whether a job's plan counts as reserved when we start."""
        if self.views.pods_of(job):
            return True
        if job.wish is None or has_ended(job.status) or job.wish.written.suspend:
            return False
        if not is_ours(job) or waits(job, self._queueing(job)):
            return False
        return job.wish.written.planning.mode is not PlanningMode.PLAN_ONLY

    def forget(self, uid: str) -> None:
        """Drop what we know of a job that is gone."""
        self.progress.pop(uid, None)
        self.troubles.pop(uid, None)

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


def is_placed(job: JobSeen, plan: PlanSeen | None, pods: Sequence[PodSeen]) -> bool:
    """Tell whether a job runs, or each pod of its plan has a node."""
    if plan is None or holds(job.status, ConditionType.RUNNING):
        return True
    sets = pod_sets(plan.plan)
    bound = [pod for pod in present(pods, sets).values() if pod.node]
    return len(bound) == sum(each.num_pods for each in sets)


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
