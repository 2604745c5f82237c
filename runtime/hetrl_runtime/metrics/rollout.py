"""Metrics of a rollout worker: tokens, weight updates, busy and idle time."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from hetrl_runtime.metrics.trainer import SECONDS_BUCKETS


class RolloutMetrics:
    """A rollout worker's series."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.tokens_generated = Counter(
            "hetrl_tokens_generated", "Response tokens sampled.", registry=registry
        )
        self.weight_sync_seconds = Histogram(
            "hetrl_weight_sync_seconds",
            "Fetching and loading a version: link is intra or inter region, "
            "kind full, delta or broadcast.",
            ["link", "kind"],
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
        self.version = Gauge(
            "hetrl_worker_policy_version", "The version that generates.", registry=registry
        )
        self.running = Gauge(
            "hetrl_running_trajectories", "Trajectories being generated.", registry=registry
        )
        self.idle_seconds = Counter(
            "hetrl_rollout_idle_seconds", "Time with nothing to generate.", registry=registry
        )
        self.busy_seconds = Counter(
            "hetrl_rollout_busy_seconds", "Time with something to generate.", registry=registry
        )
        self.generation_seconds = Histogram(
            "hetrl_rollout_generation_seconds",
            "One trajectory, from its start to its end, tools included; its reward is not.",
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
        self.interrupted = Counter(
            "hetrl_rollout_interrupted_trajectories",
            "Trajectories that new weights reached before their end.",
            registry=registry,
        )
        self.weight_sync_bytes = Counter(
            "hetrl_weight_sync_bytes",
            "Weights loaded, counted whole; patches carry fewer bytes over a link.",
            ["link", "kind"],
            registry=registry,
        )
