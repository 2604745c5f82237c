"""The operator's own figures for Prometheus. Names and units are design's; no uid is a label."""

from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from hetrl_api.fleet.fleet import gpus_by_kind
from hetrl_operator.http.job_metrics import JobMetrics, JobShown
from hetrl_operator.model.reasons import ReplanOutcome, ReplanReason, words

_SECONDS = (0.001, 0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300)


class Workqueue:
    """Figures of the work queue, named as controller-runtime names them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register them."""
        prefix = "hetrl_operator_workqueue"
        self._depth = Gauge(f"{prefix}_depth", "Jobs that wait for a worker.", registry=registry)
        self._adds = Counter(f"{prefix}_adds", "Jobs added to the queue.", registry=registry)
        self._waits = Histogram(
            f"{prefix}_queue_duration_seconds",
            "Time that a job waits for a worker.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._works = Histogram(
            f"{prefix}_work_duration_seconds",
            "Time that a worker is busy with a job.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._retries = Counter(
            f"{prefix}_retries", "Jobs that came back after a failure.", registry=registry
        )

    def depth(self, size: int) -> None:
        """Record the number of waiting keys."""
        self._depth.set(size)

    def added(self) -> None:
        """Count a key that begins to wait."""
        self._adds.inc()

    def waited(self, seconds: float) -> None:
        """Record how long a key waited for a worker."""
        self._waits.observe(seconds)

    def worked(self, seconds: float) -> None:
        """Record how long a worker was busy with a key."""
        self._works.observe(seconds)

    def retried(self) -> None:
        """Count a key that comes back after a failure."""
        self._retries.inc()


class Metrics:
    """All metrics of one operator process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register them."""
        self.workqueue = Workqueue(registry)
        self._reconciles = Counter(
            "hetrl_operator_reconcile",
            "Rounds over a job, by how they ended.",
            ["result"],
            registry=registry,
        )
        self._reconcile_seconds = Histogram(
            "hetrl_operator_reconcile_duration_seconds",
            "Time of one reconcile of a job.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._requests = Counter(
            "rest_client_requests",
            "Requests to the API server.",
            ["method", "code"],
            registry=registry,
        )
        self._throttled = Counter(
            "hetrl_operator_throttled_seconds",
            "Time that requests waited for their turn.",
            registry=registry,
        )
        self._watch_events = Counter(
            "hetrl_operator_watch_events",
            "Events from watches.",
            ["resource", "type"],
            registry=registry,
        )
        self.loop_lag = Gauge(
            "hetrl_operator_event_loop_lag_seconds",
            "How late the event loop's timer was last.",
            registry=registry,
        )
        self.leads = Gauge("hetrl_operator_leader", "1 while this replica acts.", registry=registry)
        self._solves = Histogram(
            "hetrl_planner_solve_duration_seconds",
            "Time to a planner's answer.",
            ["outcome"],
            buckets=(0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800),
            registry=registry,
        )
        for outcome in ("Plan", "Infeasible"):
            # Starts at 0: a rate would not see the first of each.
            self._solves.labels(outcome=outcome)
        self._replans = Counter(
            "hetrl_replans",
            "Searches for another plan while a job ran, by how they ended.",
            ["reason", "outcome"],
            registry=registry,
        )
        # From zero, so that the first of each counts as an increase.
        for reason in words(ReplanReason):
            for outcome in words(ReplanOutcome):
                self._replans.labels(reason=reason, outcome=outcome)
        self._last_event_at = Gauge(
            "hetrl_operator_watch_last_event_timestamp_seconds",
            "When a watch last had an event, as Unix time.",
            ["resource"],
            registry=registry,
        )
        self._fleet = _FleetGpus(registry)
        self._jobs = JobMetrics(registry)
        ProcessCollector(registry=registry)
        info = Gauge(
            "hetrl_operator_build_info",
            "Always 1; the release is a label.",
            ["version"],
            registry=registry,
        )
        info.labels(version=version("hetrl")).set(1)

    def reconciled(self, *, result: str, seconds: float) -> None:
        """Count one reconcile."""
        self._reconciles.labels(result=result).inc()
        self._reconcile_seconds.observe(seconds)

    def requested(self, *, method: str, code: int) -> None:
        """Count one request to the API server."""
        self._requests.labels(method=method, code=str(code)).inc()

    def throttled(self, seconds: float) -> None:
        """Record how long a request waited for the rate limiter."""
        self._throttled.inc(seconds)

    def watched(self, *, resource: str, type_: str) -> None:
        """Count one event from a watch."""
        self._watch_events.labels(resource=resource, type=type_).inc()
        self._last_event_at.labels(resource=resource).set_to_current_time()

    def solved(self, *, outcome: str, seconds: float) -> None:
        """Count one answer of the planner."""
        self._solves.labels(outcome=outcome).observe(seconds)

    def replanned(self, *, reason: str, outcome: str) -> None:
        """Count one search for another plan while a job ran."""
        self._replans.labels(reason=reason, outcome=outcome).inc()

    def watch_fleet(self, nodes: Callable[[], Iterable[Mapping[str, Any]]]) -> None:
        """Count the GPUs of these nodes at every scrape."""
        self._fleet.nodes = nodes

    def show_job(self, namespace: str, name: str, shown: JobShown) -> None:
        """Show what is known of a job."""
        self._jobs.show((namespace, name), shown)

    def drop_job(self, namespace: str, name: str) -> None:
        """Drop the series of a deleted job."""
        self._jobs.drop((namespace, name))


class _FleetGpus(Collector):
    """A collector that counts GPUs at each scrape: nodes change far more often than that."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.nodes: Callable[[], Iterable[Mapping[str, Any]]] = tuple
        registry.register(self)

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Describe the metric, so that its name cannot be registered twice."""
        yield GaugeMetricFamily(
            "hetrl_fleet_gpus", "GPUs of the cluster's nodes, by GPU kind.", labels=["pool"]
        )

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Count."""
        for family in self.describe():
            for kind, count in sorted(gpus_by_kind(self.nodes()).items()):
                family.add_metric([kind], count)
            yield family
