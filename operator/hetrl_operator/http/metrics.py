"""The operator's own figures for Prometheus. Names and units are design's; no uid is a label."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.metadata import version
from itertools import product
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from hetrl_api.fleet.fleet import gpus_by_kind
from hetrl_operator.http.job_metrics import JobMetrics, JobShown
from hetrl_operator.model.reasons import ReplanOutcome, ReplanReason, words

_SECONDS = (0.001, 0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300)
_PLANNER_SECONDS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800)


class Workqueue:
    """Figures of the work queue, named as controller-runtime names them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register them."""
        prefix = "hetrl_operator_workqueue"
        counter = partial(Counter, registry=registry)
        seconds = partial(Histogram, buckets=_SECONDS, registry=registry)
        self._depth = Gauge(f"{prefix}_depth", "Jobs that wait for a worker.", registry=registry)
        self._adds = counter(f"{prefix}_adds", "Jobs added to the queue.")
        self._waits = seconds(
            f"{prefix}_queue_duration_seconds", "Time that a job waits for a worker."
        )
        self._works = seconds(
            f"{prefix}_work_duration_seconds", "Time that a worker is busy with a job."
        )
        self._retries = counter(f"{prefix}_retries", "Jobs that came back after a failure.")

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
        counter = partial(Counter, registry=registry)
        gauge = partial(Gauge, registry=registry)
        seconds = partial(Histogram, registry=registry)
        self.workqueue = Workqueue(registry)
        self._reconciles = counter(
            "hetrl_operator_reconcile", "Rounds over a job, by how they ended.", ["result"]
        )
        self._reconcile_seconds = seconds(
            "hetrl_operator_reconcile_duration_seconds",
            "Time of one reconcile of a job.",
            buckets=_SECONDS,
        )
        self._requests = counter(
            "rest_client_requests", "Requests to the API server.", ["method", "code"]
        )
        self._throttled = counter(
            "hetrl_operator_throttled_seconds", "Time that requests waited for their turn."
        )
        self._watch_events = counter(
            "hetrl_operator_watch_events", "Events from watches.", ["resource", "type"]
        )
        self.loop_lag = gauge(
            "hetrl_operator_event_loop_lag_seconds", "How late the event loop's timer was last."
        )
        self.leads = gauge("hetrl_operator_leader", "1 while this replica acts.")
        self._solves = seconds(
            "hetrl_planner_solve_duration_seconds",
            "Time to a planner's answer.",
            ["outcome"],
            buckets=_PLANNER_SECONDS,
        )
        self._replans = counter(
            "hetrl_replans",
            "Searches for another plan while a job ran, by how they ended.",
            ["reason", "outcome"],
        )
        self._last_event_at = gauge(
            "hetrl_operator_watch_last_event_timestamp_seconds",
            "When a watch last had an event, as Unix time.",
            ["resource"],
        )
        self._fleet = _FleetGpus(registry)
        self._jobs = JobMetrics(registry)
        ProcessCollector(registry=registry)
        info = gauge("hetrl_operator_build_info", "Always 1; the release is a label.", ["version"])
        info.labels(version=version("hetrl")).set(1)
        self._start_at_zero()

    def _start_at_zero(self) -> None:
        """Create series before their first event, which a rate would not see otherwise."""
        for outcome in ("Plan", "Alternatives", "Infeasible", "Occupied", "PlannerTrouble"):
            self._solves.labels(outcome=outcome)
        for reason, outcome in product(words(ReplanReason), words(ReplanOutcome)):
            self._replans.labels(reason=reason, outcome=outcome)

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
