"""Metrics of an inference worker: its requests and their durations."""

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from hetrl_runtime.metrics.trainer import SECONDS_BUCKETS
from hetrl_runtime.wire.values import ProcessStatus


class InferenceMetrics:
    """An inference worker's series."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._last = ProcessStatus()
        counter = partial(Counter, registry=registry)
        self.tokens = counter("hetrl_inference_tokens", "Tokens that frozen models read.")
        self.waiting = Gauge(
            "hetrl_inference_waiting_trajectories",
            "Responses that wait for their turn.",
            registry=registry,
        )
        self.seconds = Histogram(
            "hetrl_inference_seconds",
            "One response, from being asked about to its answer.",
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
        self.idle_seconds = counter("hetrl_inference_idle_seconds", "Time with nothing to score.")
        self.busy_seconds = counter("hetrl_inference_busy_seconds", "Time with something to score.")

    def show(self, status: ProcessStatus) -> None:
        """Bring the series to this status; counters get what was added since the last."""
        last, self._last = self._last, status
        self.waiting.set(status.running)
        self.tokens.inc(status.generated_tokens - last.generated_tokens)
        self.idle_seconds.inc(status.idle_seconds - last.idle_seconds)
        self.busy_seconds.inc(status.busy_seconds - last.busy_seconds)
