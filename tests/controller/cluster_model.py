"""A cluster as far as decisions are concerned: actions in, the next observation out.

It behaves like the API server and the StatefulSet controller for one job, at once and
without faults. That suffices to ask whether decisions come to rest; how real servers
behave is asked of real servers.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, assert_never

from hetrl_core.plan import Plan
from hetrl_core.task import Role
from hetrl_operator.actions import (
    Action,
    Apply,
    Delete,
    DeleteJob,
    IssueCertificates,
    LiftGate,
    ReleaseGpus,
    ReserveGpus,
    StartPlanning,
    WriteStatus,
)
from hetrl_operator.decide import decide
from hetrl_operator.labels import POD_SET, ROLE
from hetrl_operator.observe import child_seen, job_seen, plan_seen
from hetrl_operator.observed import (
    Answer,
    ChildSeen,
    JobSeen,
    Observed,
    PlanningSeen,
    PlanSeen,
    PodSeen,
    ProgressSeen,
    Termination,
)
from hetrl_operator.planning import planning_key
from tests.controller.values import NOW, SETTINGS, a_job_object


@dataclass(slots=True, kw_only=True)
class ClusterModel:
    """One job and its objects."""

    job: JobSeen
    answer: Answer
    """What the planner will say."""

    left_out: str = ""
    """The nodes that it will not have counted with."""

    now: datetime = NOW
    planning: PlanningSeen | None = None
    plans: dict[str, PlanSeen] = field(default_factory=dict)
    children: dict[tuple[str, str], ChildSeen] = field(default_factory=dict)
    replicas: dict[str, tuple[str, Role, int]] = field(default_factory=dict)
    """By StatefulSet: pod set, role, pods wanted."""

    pods: dict[str, PodSeen] = field(default_factory=dict)
    progress: ProgressSeen | None = None
    written: list[Action | WriteStatus] = field(default_factory=list)
    certificates_issued: int = 0
    is_deleted: bool = False
    num_created: int = 0

    def observe(self) -> Observed:
        """What the operator sees."""
        key = planning_key(self.job.wish) if self.job.wish else ""
        planning = self.planning or PlanningSeen(spec_key=key, key=f"fleet+{key}")
        if planning.spec_key != key:
            planning = PlanningSeen(
                spec_key=key, key=f"fleet+{key}", is_reserved=planning.is_reserved
            )
        self.planning = planning
        return Observed(
            job=self.job,
            planning=planning,
            plans=tuple(self.plans.values()),
            children=tuple(self.children.values()),
            pods=tuple(self.pods.values()),
            progress=self.progress,
        )

    def round(self) -> tuple[Action | WriteStatus, ...]:
        """Let the operator look and act once; return what it did."""
        self.now += timedelta(seconds=1)
        decision = decide(self.observe(), self.now, SETTINGS)
        actions = (*((decision.status,) if decision.status else ()), *decision.actions)
        for action in actions:
            self.perform(action)
            self.written.append(action)
        return actions

    def settle(self, *, most_rounds: int = 20) -> int:
        """Run rounds until one does nothing; return how many did something."""
        for number in range(most_rounds):
            if not self.round():
                return number
        raise AssertionError(f"still acting after {most_rounds} rounds: {self.written[-5:]}")

    def perform(self, action: Action | WriteStatus) -> None:
        """Do what an action asks."""
        match action:
            case StartPlanning() | ReserveGpus() | ReleaseGpus():
                self._plan(action)
            case IssueCertificates():
                self.certificates_issued += 1
            case LiftGate(pod=name, uid=uid):
                assert self.pods[name].uid == uid
                self.pods[name] = replace(self.pods[name], is_gated=False)
            case WriteStatus(status=status):
                self.job = replace(self.job, status=status)
            case Delete() | DeleteJob():
                self._delete(action)
            case Apply(manifest=manifest):
                self._apply(dict(manifest))
            case _:
                assert_never(action)

    def make_ready(self) -> None:
        """Let every pod that may run become ready."""
        for name, pod in self.pods.items():
            if not pod.is_gated:
                self.pods[name] = replace(pod, is_ready=True, waiting_reason="")

    def kill(self, name: str) -> None:
        """Lose a pod; its StatefulSet makes another."""
        del self.pods[name]
        self._sync()

    def crash(self, name: str, exit_code: int, message: str = "") -> None:
        """Let a container end; the kubelet starts it again."""
        pod = self.pods[name]
        end = Termination(exit_code=exit_code, message=message, at=self.now)
        self.pods[name] = replace(pod, termination=end, restarts=pod.restarts + 1, is_ready=False)

    def change(self, **spec: Any) -> None:
        """Let the user change fields of the spec."""
        body = a_job_object(**spec)
        body["metadata"]["generation"] = self.job.generation + 1
        fresh = job_seen(body)
        self.job = replace(fresh, status=self.job.status)

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
            seen = plan_seen(body)
            assert seen
            self.plans[name] = seen
            return
        self.children[kind, name] = child_seen(kind, body)
        if kind == "StatefulSet":
            labels = metadata["labels"]
            wanted = manifest["spec"]["replicas"]
            self.replicas[name] = (labels[POD_SET], Role(labels[ROLE]), wanted)
            self._sync()

    def _plan(self, action: StartPlanning | ReserveGpus | ReleaseGpus) -> None:
        assert self.planning
        if isinstance(action, StartPlanning):
            self.planning = replace(
                self.planning, answer=self.answer, answer_key=action.key, left_out=self.left_out
            )
        else:
            reserved = isinstance(action, ReserveGpus)
            self.planning = replace(self.planning, is_reserved=reserved)

    def _delete(self, action: Delete | DeleteJob) -> None:
        if isinstance(action, DeleteJob):
            self.is_deleted = True
        elif action.kind == "HetRLPlan":
            del self.plans[action.name]
        elif action.kind == "Pod":
            self.kill(action.name)
        else:
            del self.children[action.kind, action.name]
            self.replicas.pop(action.name, None)
            self._sync()

    def _sync(self) -> None:
        """Make the pods what the StatefulSets want."""
        wanted = {
            f"{name}-{ordinal}": (pod_set, role, ordinal)
            for name, (pod_set, role, number) in self.replicas.items()
            for ordinal in range(number)
        }
        self.pods = {name: pod for name, pod in self.pods.items() if name in wanted}
        for name, (pod_set, role, ordinal) in wanted.items():
            if name not in self.pods:
                self.num_created += 1
                self.pods[name] = PodSeen(
                    name=name, uid=f"pod-{self.num_created}", pod_set=pod_set, role=role,
                    ordinal=ordinal, created_at=self.now, is_gated=True,
                )  # fmt: skip


def a_cluster(job: JobSeen, answer: Plan) -> ClusterModel:
    """A cluster with a job that nothing was done for yet."""
    return ClusterModel(job=job, answer=answer)
