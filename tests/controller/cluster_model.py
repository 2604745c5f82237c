"""A cluster as far as decisions are concerned: actions in, the next observation out.

It behaves like the API server for one job, at once and without faults. That suffices to
ask whether decisions come to rest; how real servers behave is asked of real servers. Pods
are left to ``pods_model``, Kueue to ``queueing``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, assert_never

from hetrl_api.job.status import JobStatus
from hetrl_core.fleet.snapshot import ClusterSnapshot, Machine
from hetrl_core.plan.plan import Infeasible, Plan
from hetrl_core.plan.pod_sets import pod_sets
from hetrl_core.task import Role
from hetrl_operator.decide import decide
from hetrl_operator.model.actions import (
    Action,
    AddFinalizer,
    AnnotatePlan,
    Apply,
    Delete,
    DeleteJob,
    Event,
    IssueCertificates,
    ReleaseGpus,
    RemoveFinalizer,
    RemoveSchedulingGate,
    RequeueWorkload,
    ReserveGpus,
    StartPlanning,
    SubmitWorkload,
    UpdateWorkloadStatus,
    WriteStatus,
)
from hetrl_operator.model.conditions import condition
from hetrl_operator.model.kueue.admission import QueueingSeen
from hetrl_operator.model.kueue.queueing import waits
from hetrl_operator.model.labels import FINALIZER
from hetrl_operator.model.observed import (
    ChildSeen,
    FleetSeen,
    JobSeen,
    Observed,
    ProgressSeen,
)
from hetrl_operator.model.parse import child_seen, job_seen, plan_seen
from hetrl_operator.model.plan_selection import active_plan, named
from hetrl_operator.model.planning import (
    Answer,
    InsufficientFreeGpus,
    PlannerError,
    PlanningSeen,
    PlanSeen,
)
from hetrl_operator.planning.full_machines import FullMachines
from hetrl_operator.planning.inputs import planning_key
from hetrl_operator.reconcile.snapshot import is_placed
from hetrl_operator.settings import PodSettings
from tests.builders import a_kind
from tests.controller.pods_model import PodsModel
from tests.controller.queueing import Queue
from tests.controller.values import SETTINGS, a_job, a_job_object, a_plan

_OfJob = (
    StartPlanning
    | ReserveGpus
    | ReleaseGpus
    | IssueCertificates
    | RemoveSchedulingGate
    | AddFinalizer
    | RemoveFinalizer
    | AnnotatePlan
    | Delete
    | DeleteJob
    | Apply
)
"""What is done for a job by others than its queue."""


A100S = ClusterSnapshot(
    gpu_kinds=(a_kind("A100-80GB"),),
    machines=tuple(
        Machine(name=f"a100-{number}", gpu_kind="A100-80GB", num_gpus=8, region="local")
        for number in range(3)
    ),
)
"""What ``choose`` may choose from."""


@dataclass(slots=True, kw_only=True)
class ClusterModel(PodsModel):
    """One job and its objects."""

    job: JobSeen
    answer: Answer
    """What the planner will say."""

    left_out: str = ""
    """The nodes that it will not have counted with."""

    settings: PodSettings = SETTINGS
    planning: PlanningSeen | None = None
    plans: dict[str, PlanSeen] = field(default_factory=dict)
    plan_bodies: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The HetRLPlans by name, as they are stored."""

    validate: Callable[[Plan], Answer] = field(default=lambda plan: plan)
    """What the planner will say of a plan that is given."""

    held: Plan | None = None
    """What the ledger holds for the job."""

    children: dict[tuple[str, str], ChildSeen] = field(default_factory=dict)
    progress: ProgressSeen | None = None
    written: list[Action | WriteStatus] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    certificates_issued: int = 0
    lost_nodes: dict[str, datetime] = field(default_factory=dict)
    leaving: dict[str, str] = field(default_factory=dict)
    full_machines: FullMachines = field(default_factory=FullMachines)
    choose: Callable[[FullMachines], Answer] | None = None
    """What the planner will say, where that depends on the machines that are avoided."""

    fleet: str = "fleet"
    """Digest of the fleet; plans are made for the one that there is."""

    differs_since: datetime | None = None
    is_deleted: bool = False
    is_gone: bool = False
    wake_after_seconds: float | None = None
    """When the operator wants to look again."""

    queue: Queue | None = None
    """Kueue, where the cluster has it."""

    @property
    def followed(self) -> PlanSeen:
        """The active plan."""
        plan = active_plan(self.job, self.plans.values())
        assert plan
        return plan

    @property
    def past(self) -> list[str]:
        """The plans that the job does not follow any more, the oldest first."""
        past = [each for each in self.plans.values() if each.replaced_at]
        return [each.name for each in sorted(past, key=lambda each: str(each.replaced_at))]

    def observe(self) -> Observed:
        """What the operator sees."""
        key = planning_key(self.job.parsed) if self.job.parsed else ""
        planning = self.planning or PlanningSeen(spec_key=key)
        if planning.spec_key != key:
            planning = PlanningSeen(spec_key=key, is_reserved=planning.is_reserved)
        plans = tuple(self.plans.values())
        plan, manual_plan = active_plan(self.job, plans), named(self.job, plans)
        sets = pod_sets(plan.plan) if plan else ()
        held = self.held is not None and manual_plan is not None and self.held == manual_plan.plan
        planning = replace(planning, holds_manual_plan=planning.is_reserved and held)
        self.planning = planning
        pods = tuple(self.pods.values())
        full_machines = self.full_machines.observe(
            self.job.uid,
            pods,
            self.waiting(),
            self.now,
            is_placed=is_placed(self.job, sets, pods),
        )
        queueing = self.queue.seen() if self.queue else QueueingSeen()
        # The planning service checks no answer that a reservation protects.
        checks = isinstance(planning.answer, Infeasible | InsufficientFreeGpus) or (
            isinstance(planning.answer, Plan) and waits(self.job, queueing) and not manual_plan
        )
        is_outdated = checks and planning.answer_key != self._inputs()
        planning = self.planning = replace(planning, is_outdated=is_outdated)
        return Observed(
            job=self.job,
            planning=planning,
            plans=plans,
            active_plan=plan,
            pod_sets=sets,
            manual_plan=manual_plan,
            children=tuple(self.children.values()),
            pods=tuple(self.pods.values()),
            lost_nodes=self.lost_nodes,
            leaving=self.leaving,
            full_machines=full_machines,
            fleet=self._fleet(),
            progress=self.progress,
            queueing=queueing,
        )

    def round(self, *, after_seconds: float = 1.0) -> tuple[Action | WriteStatus, ...]:
        """Let the operator look and act once; return what it did."""
        self.now += timedelta(seconds=after_seconds)
        decision = decide(self.observe(), self.now, self.settings)
        actions = (*((decision.status,) if decision.status else ()), *decision.actions)
        self.events += decision.events
        self.wake_after_seconds = decision.wake_after_seconds
        for action in actions:
            self.apply(action)
            self.written.append(action)
        return actions

    def round_without_actions(self) -> bool:
        """Let the operator write its status and die; tell whether it had something to write."""
        self.now += timedelta(seconds=1)
        status = decide(self.observe(), self.now, self.settings).status
        if status:
            self.apply(status)
        return status is not None

    def set_status(self, status: JobStatus) -> None:
        """Let the job have a status that somebody else wrote."""
        self.job = replace(self.job, status=status)

    def settle(self, *, most_rounds: int = 20) -> int:
        """Run rounds until one does nothing; return how many did something."""
        for number in range(most_rounds):
            if not self.round():
                return number
        raise AssertionError(f"still acting after {most_rounds} rounds: {self.written[-5:]}")

    def apply(self, action: Action | WriteStatus) -> None:
        """Do what an action asks."""
        match action:
            case (
                SubmitWorkload()
                | RequeueWorkload()
                | UpdateWorkloadStatus()
                | Delete(kind="Workload")
            ):
                assert self.queue, f"there is no Kueue here: {action}"
                self.queue.apply(action)
            case _:
                self._perform(action)

    def _perform(self, action: _OfJob | WriteStatus) -> None:  # noqa: C901  # one line an action
        match action:
            case StartPlanning() | ReserveGpus() | ReleaseGpus():
                self._plan(action)
            case IssueCertificates():
                self.certificates_issued += 1
            case RemoveSchedulingGate(pod=name, uid=uid, hostname=hostname):
                assert self.pods[name].uid == uid
                self.bind(name, hostname)
            case WriteStatus(status=status):
                self.job = replace(self.job, status=status)
            case AddFinalizer() | RemoveFinalizer() | DeleteJob():
                self._end(action)
            case AnnotatePlan():
                self._annotate(action)
            case Delete():
                self._delete(action)
            case Apply(manifest=manifest):
                self._apply(dict(manifest))
            case _:
                assert_never(action)

    def _end(self, action: AddFinalizer | RemoveFinalizer | DeleteJob) -> None:
        if isinstance(action, DeleteJob):
            self.is_deleted = True
            return
        finalizers = (FINALIZER,) if isinstance(action, AddFinalizer) else ()
        self.job = replace(self.job, finalizers=finalizers)
        self.is_gone = self.job.is_deleting and not self.job.has_finalizer

    def change(self, **spec: Any) -> None:
        """Let the user change fields of the spec."""
        body = a_job_object(**spec)
        body["metadata"]["generation"] = self.job.generation + 1
        fresh = job_seen(body)
        self.job = replace(fresh, status=self.job.status, finalizers=self.job.finalizers)

    def move_fleet(self, key: str) -> None:
        """Let what planning sees of the fleet change."""
        self.fleet = key

    def _inputs(self) -> str:
        """The digest of what the planner reads."""
        avoided = sorted(self.full_machines.left_out(self.job.uid, A100S)) if self.choose else ""
        key = planning_key(self.job.parsed) if self.job.parsed else ""
        return f"{key}+{self.fleet}+{avoided}"

    def _fleet(self) -> FleetSeen:
        plan = active_plan(self.job, self.plans.values())
        if plan is None or plan.fleet == self.fleet:
            self.differs_since = None
        else:
            self.differs_since = self.differs_since or self.now
        return FleetSeen(key=self.fleet, differs_since=self.differs_since)

    def delete_job(self) -> None:
        """Let somebody delete the job."""
        self.job = replace(self.job, deleted_at=self.now)
        self.is_gone = not self.job.has_finalizer

    def messages_of(self, reason: str) -> list[str]:
        """The messages of the events of a reason."""
        return [each.message for each in self.events if each.reason == reason]

    def _apply(self, manifest: dict[str, Any]) -> None:
        metadata = manifest["metadata"]
        body = {
            **manifest,
            "metadata": {
                **metadata,
                "uid": f"uid-of-{metadata['name']}",
                "creationTimestamp": self.now.isoformat(),
            },
        }
        kind, name = manifest["kind"], metadata["name"]
        if kind == "HetRLPlan":
            self.store_plan(body)
            return
        self.children[kind, name] = child_seen(kind, body)
        if kind == "StatefulSet":
            self.sets[name] = manifest
            self.sync()

    def store_plan(self, body: dict[str, Any]) -> PlanSeen:
        """Create a HetRLPlan of any author."""
        seen = plan_seen(body)
        assert isinstance(seen, PlanSeen)
        self.plan_bodies[seen.name], self.plans[seen.name] = body, seen
        return seen

    def _annotate(self, action: AnnotatePlan) -> None:
        body = self.plan_bodies[action.name]
        assert body["metadata"]["uid"] == action.uid
        known = body["metadata"].get("annotations", {}) | action.annotations
        annotations = {key: value for key, value in known.items() if value is not None}
        self.store_plan({**body, "metadata": {**body["metadata"], "annotations": annotations}})

    def _plan(self, action: StartPlanning | ReserveGpus | ReleaseGpus) -> None:
        assert self.planning
        if isinstance(action, StartPlanning):
            found = self.choose(self.full_machines) if self.choose else self.answer
            answer = self.validate(action.manual_plan) if action.manual_plan else found
            has_failed = isinstance(answer, PlannerError)
            self.planning = replace(
                self.planning,
                answer=answer,
                answer_key=self._inputs(),
                answer_request_id=action.request_id,
                answered_at=self.now,
                answer_fleet=self.fleet,
                left_out=self.left_out,
                num_failures=self.planning.num_failures + 1 if has_failed else 0,
            )
        else:
            reserved = isinstance(action, ReserveGpus)
            self.held = action.plan if isinstance(action, ReserveGpus) else None
            self.planning = replace(self.planning, is_reserved=reserved)

    def _delete(self, action: Delete) -> None:
        if action.kind == "HetRLPlan":
            del self.plans[action.name], self.plan_bodies[action.name]
        elif action.kind == "Pod":
            self.kill(action.name)
        else:
            del self.children[action.kind, action.name]
            self.sets.pop(action.name, None)
            self.sync()


def a_cluster(job: JobSeen, answer: Plan) -> ClusterModel:
    """A cluster with a job that nothing was done for yet."""
    return ClusterModel(job=job, answer=answer)


def a_running_job(job: JobSeen | None = None, **plan: Any) -> ClusterModel:
    """A cluster whose job runs; keyword arguments are ``a_plan``'s."""
    cluster = a_cluster(job or a_job(), a_plan(**plan))
    cluster.settle()
    cluster.make_ready()
    cluster.settle()
    assert cluster.job.status.phase == "Running"
    return cluster


def reason_of(cluster: ClusterModel, type_: str) -> str:
    """The reason of a condition."""
    found = condition(cluster.job.status, type_)
    assert found, f"no condition {type_}"
    return found.reason


def uids(cluster: ClusterModel, role: Role | None = None) -> dict[str, str]:
    """The uid of each pod by name."""
    return {name: pod.uid for name, pod in cluster.pods.items() if role in {None, pod.role}}
