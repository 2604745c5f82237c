"""Prometheus metrics of each job: its state, its GPUs and its plan's predictions.

Each job has one set of series, which end with it. `hetrl run` exports the same names for its job.
"""

from collections import Counter as Count
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from hetrl_api.job.status import JobStatus
from hetrl_core.plan.plan import Plan
from hetrl_core.plan.pod_sets import PodSet, pod_sets

JobName = tuple[str, str]
"""Namespace and name."""

_LABELS = ("namespace", "hetrljob")
_ENDS = ("Succeeded", "Failed")
_GAUGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "hetrl_plan_predicted_step_seconds": ("Predicted time of one step.", ()),
    "hetrl_plan_gap_ratio": ("Distance of the plan from the best bound known.", ()),
    "hetrl_cost_dollars_per_hour": ("Price of the GPUs that the job holds.", ()),
    "hetrl_job_phase": ("1 for the phase that the job is in.", ("phase",)),
    "hetrl_job_condition": ("1 for a condition that holds, 0 for one that does not.", ("type",)),
    "hetrl_job_gpus": ("GPUs that the job holds, by role and GPU kind.", ("role", "pool")),
    "hetrl_job_pods": (
        "Pods of the job: those that should be (wanted) and those that are ready.",
        ("role", "pool", "state"),
    ),
    "hetrl_job_restarts": ("Restarts of trainers and of the coordinator after failures.", ()),
}
"""Help text, and the labels besides those of every job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsShown:
    """Pods of one pod set: how many there should be, and how many are ready."""

    role: str
    gpu_kind: str
    wanted: int
    ready: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobShown:
    """The values of a job's series."""

    phase: str
    plan: Plan | None = None
    """The active plan."""

    is_paid: bool = False
    """Whether the plan's GPUs are reserved for the job."""

    pods: tuple[PodsShown, ...] = ()
    conditions: Mapping[str, bool] = field(default_factory=dict)
    """Whether each condition is true, by type."""

    restarts: int = 0
    startup_seconds: float | None = None
    """From the first pod to running; None while it does not run."""


def job_shown(status: JobStatus, *, plan: Plan | None, is_paid: bool) -> JobShown:
    """Return what a job's series show, from its status and whether its GPUs are held for it."""
    return JobShown(
        phase=str(status.phase or "Pending"),
        plan=plan,
        is_paid=is_paid,
        pods=tuple(
            PodsShown(
                role=each.role,
                gpu_kind=each.gpu_kind or "",
                wanted=each.replicas,
                ready=each.ready_replicas,
            )
            for each in status.pod_sets
        ),
        conditions={str(each.type): each.status == "True" for each in status.conditions},
        restarts=status.restarts or 0,
        startup_seconds=_startup_seconds(status),
    )


def _startup_seconds(status: JobStatus) -> float | None:
    running = next((each for each in status.conditions if each.type == "Running"), None)
    if status.start_time is None or running is None or running.status != "True":
        return None
    return (running.last_transition_time - status.start_time).total_seconds()


class _Gauges:
    """A gauge whose set of label values is replaced on each update."""

    def __init__(
        self, name: str, help_: str, labels: tuple[str, ...], registry: CollectorRegistry
    ) -> None:
        self._gauge = Gauge(name, help_, [*_LABELS, *labels], registry=registry)
        self._shown: dict[JobName, dict[tuple[str, ...], float]] = {}

    def show(self, job: JobName, values: Mapping[tuple[str, ...], float]) -> None:
        shown = self._shown.get(job, {})
        # A lookup of a series takes the library longer than most reconciles' other work.
        if shown == values:
            return
        for labels in shown.keys() - values.keys():
            self._gauge.remove(*job, *labels)
        for labels, value in values.items():
            self._gauge.labels(*job, *labels).set(value)
        self._shown[job] = dict(values)

    def drop(self, job: JobName) -> None:
        for labels in self._shown.pop(job, {}):
            self._gauge.remove(*job, *labels)


class JobMetrics:
    """The series of all jobs of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register them."""
        self._gauges = {
            name: _Gauges(name, help_, labels, registry)
            for name, (help_, labels) in _GAUGES.items()
        }
        self._startup = Histogram(
            "hetrl_job_startup_seconds",
            "From a job's first pod to its running.",
            buckets=(1, 2, 5, 10, 20, 60, 120, 300, 600, 1800),
            registry=registry,
        )
        self._ended = Counter(
            "hetrl_jobs_ended", "Jobs that ended, by how.", ["outcome"], registry=registry
        )
        for outcome in _ENDS:
            self._ended.labels(outcome)
        self._phases: dict[JobName, str] = {}
        self._counted: dict[JobName, tuple[Plan, dict[tuple[str, ...], float]]] = {}

    def show(self, job: JobName, shown: JobShown) -> None:
        """Update a job's series."""
        self._count_turns(job, shown)
        plan = shown.plan
        expected = plan.prediction if plan else None
        paid = plan if shown.is_paid else None
        values: dict[str, Mapping[tuple[str, ...], float]] = {
            "hetrl_plan_predicted_step_seconds": {(): expected.step_seconds} if expected else {},
            # Not every plan has a bound to be held against.
            "hetrl_plan_gap_ratio": {} if plan is None or plan.gap is None else {(): plan.gap},
            "hetrl_cost_dollars_per_hour": {(): paid.prediction.dollars_per_hour if paid else 0.0},
            "hetrl_job_phase": {(shown.phase,): 1},
            "hetrl_job_condition": {(name,): holds for name, holds in shown.conditions.items()},
            "hetrl_job_gpus": self._gpus_of(job, paid) if paid else {},
            "hetrl_job_pods": _pods(shown.pods),
            "hetrl_job_restarts": {(): shown.restarts},
        }
        for name, of_job in values.items():
            self._gauges[name].show(job, of_job)

    def drop(self, job: JobName) -> None:
        """End a job's series."""
        self._phases.pop(job, None)
        self._counted.pop(job, None)
        for gauges in self._gauges.values():
            gauges.drop(job)

    def _gpus_of(self, job: JobName, plan: Plan) -> dict[tuple[str, ...], float]:
        known, found = self._counted.get(job, (None, {}))
        # Reconciles are far more frequent than plans, and a large plan has thousands of GPUs.
        if known is not plan:
            found = _gpus(pod_sets(plan))
            self._counted[job] = plan, found
        return found

    def _count_turns(self, job: JobName, shown: JobShown) -> None:
        before = self._phases.get(job)
        self._phases[job] = shown.phase
        # State at the operator's start is older, and was counted by an earlier process.
        if before is None or before == shown.phase:
            return
        if shown.phase in _ENDS:
            self._ended.labels(shown.phase).inc()
        if shown.phase == "Running" and shown.startup_seconds is not None:
            self._startup.observe(shown.startup_seconds)


def _gpus(pod_sets: Iterable[PodSet]) -> dict[tuple[str, ...], float]:
    found: Count[tuple[str, ...]] = Count()
    for each in pod_sets:
        if each.gpus_per_pod:
            found[each.role, each.gpu_kind] += each.num_pods * each.gpus_per_pod
    return dict(found)


def _pods(pods: Iterable[PodsShown]) -> dict[tuple[str, ...], float]:
    found: Count[tuple[str, ...]] = Count()
    for each in pods:
        found[each.role, each.gpu_kind, "wanted"] += each.wanted
        found[each.role, each.gpu_kind, "ready"] += each.ready
    return dict(found)
