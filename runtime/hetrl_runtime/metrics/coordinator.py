"""Metrics of the coordinator: the flow of trajectories and their age."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from hetrl_runtime.wire.values import Outcome

STALENESS_BUCKETS = (0, 1, 2, 3, 4, 6, 8, 12, 16)


class CoordinatorMetrics:
    """The coordinator's series."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.staleness = Histogram(
            "hetrl_sample_staleness_versions",
            "Versions between a consumed trajectory's oldest token and the version it trained.",
            buckets=STALENESS_BUCKETS,
            registry=registry,
        )
        self.max_staleness = Gauge(
            "hetrl_max_staleness_versions",
            "The bound: the largest staleness that this run trains on.",
            registry=registry,
        )
        self.trajectories = Counter(
            "hetrl_trajectories",
            "Delivered trajectories by what became of them; stale ones also when dropped later.",
            ["outcome"],
            registry=registry,
        )
        self.outcomes = {
            outcome: self.trajectories.labels(outcome=str(outcome)) for outcome in Outcome
        }
        """Of ``trajectories``: finding a label's series takes longer than counting."""

        self.silent_groups = Counter(
            "hetrl_groups_left_out",
            "Groups that dynamic sampling left out because their rewards were all equal.",
            registry=registry,
        )
        self.buffered = Gauge(
            "hetrl_buffer_trajectories",
            "Trajectories accepted and not consumed.",
            registry=registry,
        )
        self.running = Gauge(
            "hetrl_leased_trajectories",
            "Trajectories leased to rollout workers.",
            registry=registry,
        )
        self.version = Gauge(
            "hetrl_policy_version", "The version being trained.", registry=registry
        )
        self.training_steps = Gauge(
            "hetrl_training_steps", "Steps that the job asks for.", registry=registry
        )
        self.reward_mean = Gauge(
            "hetrl_reward_mean", "Mean reward of the last batch.", registry=registry
        )
        self.predicted_step_seconds = Gauge(
            "hetrl_plan_predicted_step_seconds",
            "What the plan expects of a step; absent prediction: 0.",
            registry=registry,
        )
