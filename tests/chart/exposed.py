"""Every series that our processes show to Prometheus, as they register them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from prometheus_client import CollectorRegistry, Metric

from hetrl_operator.http.metrics import Metrics
from hetrl_runtime.metrics.coordinator import CoordinatorMetrics
from hetrl_runtime.metrics.inference import InferenceMetrics
from hetrl_runtime.metrics.rollout import RolloutMetrics
from hetrl_runtime.metrics.trainer import TrainerMetrics

PROCESSES: dict[str, Callable[[CollectorRegistry], object]] = {
    "operator": Metrics,
    "coordinator": CoordinatorMetrics,
    "trainer": TrainerMetrics,
    "rollout": RolloutMetrics,
    "inference": InferenceMetrics,
}
SUFFIXES = {
    "counter": ("_total",),
    "histogram": ("_bucket", "_sum", "_count"),
    "gauge": ("",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One metric of one process."""

    process: str
    name: str
    """As a query names it: a counter's with ``_total``, a histogram's without its suffixes."""

    kind: str
    labels: tuple[str, ...]
    means: str

    @property
    def series(self) -> tuple[str, ...]:
        """The names of its series."""
        if self.kind == "histogram":
            return tuple(self.name + suffix for suffix in SUFFIXES["histogram"])
        return (self.name,)


@cache
def families() -> tuple[Family, ...]:
    """Every metric, process by process, in the order in which they are registered."""
    return tuple(_families())


def _families() -> Iterator[Family]:
    for process, register in PROCESSES.items():
        registry = CollectorRegistry()
        register(registry)
        for collector in registry._collector_to_names:
            describe = getattr(collector, "describe", None)
            for metric in describe() if describe else collector.collect():
                labels = getattr(collector, "_labelnames", getattr(metric, "_labelnames", ()))
                yield _family(process, metric, tuple(labels))


def _family(process: str, metric: Metric, labels: tuple[str, ...]) -> Family:
    suffix = "_total" if metric.type == "counter" else ""
    return Family(
        process=process,
        name=metric.name + suffix,
        kind=metric.type,
        labels=labels,
        means=metric.documentation,
    )


def exposed() -> dict[str, set[str]]:
    """Every series' name, with its own labels."""
    found: dict[str, set[str]] = {}
    for family in families():
        for name in family.series:
            found.setdefault(name, set()).update(family.labels)
    return found
