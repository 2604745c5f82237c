"""The operator's own figures for Prometheus. Names and units are design's; no uid is a label."""

import contextlib
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from hetrl_operator.labels import ReplanOutcome, ReplanReason, words
from hetrl_operator.observed import PlanSeen

_SECONDS = (0.001, 0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300)


class Workqueue:
    """Figures of the work queue, named as controller-runtime names them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register them."""
        prefix = "hetrl_operator_workqueue"
        self._depth = Gauge(f"{prefix}_depth", "Jobs that wait for a worker.", registry=registry)
        self._adds = Counter(f"{prefix}_adds", "Jobs added to the queue.", registry=registry)
        self._waits = Histogram(
            f"{prefix}_queue_duration_seconds", "Time that a job waits for a worker.",
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self._works = Histogram(
            f"{prefix}_work_duration_seconds", "Time that a worker is busy with a job.",
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self._retries = Counter(
            f"{prefix}_retries", "Jobs that came back after a failure.", registry=registry
        )

    def depth(self, size: int) -> None:
        """Take the number of waiting keys."""
        self._depth.set(size)

    def added(self) -> None:
        """Count a key that begins to wait."""
        self._adds.inc()

    def waited(self, seconds: float) -> None:
        """Take how long a key waited for a worker."""
        self._waits.observe(seconds)

    def worked(self, seconds: float) -> None:
        """Take how long a worker was busy with a key."""
        self._works.observe(seconds)

    def retried(self) -> None:
        """Count a key that comes back after a failure."""
        self._retries.inc()


class Metrics:
    """All figures of one operator process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register them."""
        self.workqueue = Workqueue(registry)
        self._reconciles = Counter(
            "hetrl_operator_reconcile", "Rounds over a job, by how they ended.", ["result"],
            registry=registry,
        )  # fmt: skip
        self._reconcile_seconds = Histogram(
            "hetrl_operator_reconcile_duration_seconds", "Time of one round over a job.",
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self._requests = Counter(
            "rest_client_requests", "Requests to the API server.", ["method", "code"],
            registry=registry,
        )  # fmt: skip
        self._throttled = Counter(
            "hetrl_operator_throttled_seconds", "Time that requests waited for their turn.",
            registry=registry,
        )  # fmt: skip
        self._watch_events = Counter(
            "hetrl_operator_watch_events", "Events from watches.", ["resource", "type"],
            registry=registry,
        )  # fmt: skip
        self.loop_lag = Gauge(
            "hetrl_operator_event_loop_lag_seconds", "How late the event loop's timer was last.",
            registry=registry,
        )  # fmt: skip
        self.leads = Gauge("hetrl_operator_leader", "1 while this replica acts.", registry=registry)
        self._solves = Histogram(
            "hetrl_planner_solve_duration_seconds", "Time to a planner's answer.", ["outcome"],
            buckets=(0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800), registry=registry,
        )  # fmt: skip
        self._replans = Counter(
            "hetrl_replans", "Searches for another plan while a job ran, by how they ended.",
            ["reason", "outcome"], registry=registry,
        )  # fmt: skip
        # From zero, so that the first of each counts as an increase.
        for reason in words(ReplanReason):
            for outcome in words(ReplanOutcome):
                self._replans.labels(reason=reason, outcome=outcome)
        self._jobs = _JobGauges(registry)
        info = Gauge(
            "hetrl_operator_build_info", "Always 1; the release is a label.", ["version"],
            registry=registry,
        )  # fmt: skip
        info.labels(version=version("hetrl")).set(1)

    def reconciled(self, *, result: str, seconds: float) -> None:
        """Count one round."""
        self._reconciles.labels(result=result).inc()
        self._reconcile_seconds.observe(seconds)

    def requested(self, *, method: str, code: int) -> None:
        """Count one request to the API server."""
        self._requests.labels(method=method, code=str(code)).inc()

    def throttled(self, seconds: float) -> None:
        """Take how long a request waited for its turn."""
        self._throttled.inc(seconds)

    def watched(self, *, resource: str, type_: str) -> None:
        """Count one event from a watch."""
        self._watch_events.labels(resource=resource, type=type_).inc()

    def solved(self, *, outcome: str, seconds: float) -> None:
        """Count one answer of the planner."""
        self._solves.labels(outcome=outcome).observe(seconds)

    def replanned(self, *, reason: str, outcome: str) -> None:
        """Count one search for another plan while a job ran."""
        self._replans.labels(reason=reason, outcome=outcome).inc()

    def show_job(
        self, namespace: str, name: str, *, phase: str, plan: PlanSeen | None, is_paid: bool
    ) -> None:
        """Show a job's phase, and what its plan predicts and costs."""
        self._jobs.show(namespace, name, phase=phase, plan=plan, is_paid=is_paid)

    def drop_job(self, namespace: str, name: str) -> None:
        """Forget a job that is gone, so that its series end."""
        self._jobs.drop(namespace, name)


class _JobGauges:
    """Gauges with one series a job."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ["namespace", "hetrljob"]
        self._step = Gauge(
            "hetrl_plan_predicted_step_seconds", "Predicted time of one step.", labels,
            registry=registry,
        )  # fmt: skip
        self._gap = Gauge(
            "hetrl_plan_gap_ratio", "Distance of the plan from the best bound known.", labels,
            registry=registry,
        )  # fmt: skip
        self._cost = Gauge(
            "hetrl_cost_dollars_per_hour", "Price of the GPUs that the job holds.", labels,
            registry=registry,
        )  # fmt: skip
        self._phase = Gauge(
            "hetrl_job_phase", "1 for the phase that the job is in.", [*labels, "phase"],
            registry=registry,
        )  # fmt: skip
        self._phases: dict[tuple[str, str], str] = {}

    def show(
        self, namespace: str, name: str, *, phase: str, plan: PlanSeen | None, is_paid: bool
    ) -> None:
        key = (namespace, name)
        if self._phases.get(key, phase) != phase:
            self._phase.remove(*key, self._phases[key])
        self._phases[key] = phase
        self._phase.labels(*key, phase).set(1)
        cost = plan.plan.prediction.dollars_per_hour if plan and is_paid else 0.0
        self._cost.labels(*key).set(cost)
        if plan:
            self._step.labels(*key).set(plan.plan.prediction.step_seconds)
        if plan and plan.plan.gap is not None:
            self._gap.labels(*key).set(plan.plan.gap)

    def drop(self, namespace: str, name: str) -> None:
        key = (namespace, name)
        phase = self._phases.pop(key, None)
        if phase is None:
            return
        self._phase.remove(*key, phase)
        for gauge in (self._step, self._gap, self._cost):
            # Not every job had a plan, and a plan may have no gap.
            with contextlib.suppress(KeyError):
                gauge.remove(*key)
