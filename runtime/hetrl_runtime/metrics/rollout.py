"""Metrics of a rollout worker: tokens, weight updates, busy and idle time."""

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from hetrl_runtime.metrics.trainer import SECONDS_BUCKETS
from hetrl_runtime.wire.values import ProcessStatus


class RolloutMetrics:
    """A rollout worker's series."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._last = ProcessStatus()
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        histogram = partial(Histogram, buckets=SECONDS_BUCKETS, registry=registry)
        self.tokens_generated = counter("hetrl_tokens_generated", "Response tokens sampled.")
        self.weight_sync_seconds = histogram(
            "hetrl_weight_sync_seconds",
            "Fetching and loading a version: link is intra or inter region, "
            "kind full, delta or broadcast.",
            ["link", "kind"],
        )
        self.version = gauge("hetrl_worker_policy_version", "The version that generates.")
        self.running = gauge("hetrl_running_trajectories", "Trajectories being generated.")
        self.idle_seconds = counter("hetrl_rollout_idle_seconds", "Time with nothing to generate.")
        self.busy_seconds = counter(
            "hetrl_rollout_busy_seconds", "Time with something to generate."
        )
        self.generation_seconds = histogram(
            "hetrl_rollout_generation_seconds",
            "One trajectory, from its start to its end, tools included; its reward is not.",
        )
        self.interrupted = counter(
            "hetrl_rollout_interrupted_trajectories",
            "Trajectories that new weights reached before their end.",
        )
        self.unjudged = counter(
            "hetrl_rewards_unjudged",
            "Responses without a reward, by the reason why they were not judged.",
            ["reason"],
        )
        self.weight_sync_bytes = counter(
            "hetrl_weight_sync_bytes",
            "Weights loaded, counted whole; patches carry fewer bytes over a link.",
            ["link", "kind"],
        )

    def show(self, status: ProcessStatus) -> None:
        """Bring the series to this status; counters get what was added since the last."""
        last, self._last = self._last, status
        self.version.set(status.version)
        self.running.set(status.running)
        self.tokens_generated.inc(status.generated_tokens - last.generated_tokens)
        self.idle_seconds.inc(status.idle_seconds - last.idle_seconds)
        self.busy_seconds.inc(status.busy_seconds - last.busy_seconds)
