"""What a worker says of itself: how it spent its time, to the coordinator and to Prometheus."""

from hetrl_runtime.metrics.rollout import RolloutMetrics
from hetrl_runtime.wire.values import ProcessStatus


class Activity:
    """Adds up the seconds with something to generate, and those without.

    ``now`` is of any steady clock and passed in.
    """

    def __init__(self, now: float) -> None:
        self.busy_seconds = 0.0
        self.idle_seconds = 0.0
        self._is_busy = False
        self._since = now

    def observe(self, *, is_busy: bool, now: float) -> None:
        """Count the time until now by what held before, and take note of what holds next."""
        elapsed_seconds = max(0.0, now - self._since)
        if self._is_busy:
            self.busy_seconds += elapsed_seconds
        else:
            self.idle_seconds += elapsed_seconds
        self._is_busy = is_busy
        self._since = now


class StatusSeries:
    """Turns successive statuses into Prometheus series; counters get what was added since."""

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
