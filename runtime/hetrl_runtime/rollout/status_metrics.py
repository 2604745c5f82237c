"""Prometheus series of a rollout worker's status."""

from hetrl_runtime.metrics.rollout import RolloutMetrics
from hetrl_runtime.wire.values import ProcessStatus


class StatusSeries:
    """Prometheus series of successive statuses; counters get the differences."""

    def __init__(self, metrics: RolloutMetrics) -> None:
        self._metrics = metrics
        self._last = ProcessStatus()

    def show(self, status: ProcessStatus) -> None:
        """Bring the series to this status."""
        last, self._last = self._last, status
        self._metrics.version.set(status.version)
        self._metrics.running.set(status.running)
        self._metrics.tokens_generated.inc(status.generated_tokens - last.generated_tokens)
        self._metrics.idle_seconds.inc(status.idle_seconds - last.idle_seconds)
        self._metrics.busy_seconds.inc(status.busy_seconds - last.busy_seconds)
