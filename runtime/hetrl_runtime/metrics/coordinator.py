"""Metrics of the coordinator: the flow of trajectories and their age."""

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from hetrl_runtime.data.left_out import LeftOutReason
from hetrl_runtime.wire.values import Outcome

STALENESS_BUCKETS = (0, 1, 2, 3, 4, 6, 8, 12, 16)


class CoordinatorMetrics:
    """The coordinator's series."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        self.staleness = Histogram(
            "hetrl_sample_staleness_versions",
            "Versions between a consumed trajectory's oldest token and the version it trained.",
            buckets=STALENESS_BUCKETS,
            registry=registry,
        )
        self.max_staleness = gauge(
            "hetrl_max_staleness_versions",
            "The bound: the largest staleness that this run trains on.",
        )
        trajectories = counter(
            "hetrl_trajectories",
            "Delivered trajectories by what became of them; stale ones also when dropped later.",
            ["outcome"],
        )
        self.outcomes = {outcome: trajectories.labels(outcome=str(outcome)) for outcome in Outcome}
        """Finding a label's series takes longer than counting."""

        self.silent_groups = counter(
            "hetrl_groups_left_out",
            "Groups that dynamic sampling left out because their rewards were all equal.",
        )
        self.unjudged_groups = counter(
            "hetrl_groups_unjudged",
            "Groups left out because fewer than two of their responses were judged.",
        )
        prompts = gauge(
            "hetrl_prompts_left_out",
            "Prompts of the data that are not used, by the reason why they cannot be.",
            ["reason"],
        )
        self.left_out = {each: prompts.labels(reason=each) for each in LeftOutReason}
        self.quarantined = counter(
            "hetrl_trajectories_quarantined",
            "Trajectories with which the trainer ended twice, and which are not trained on.",
        )
        self.buffered = gauge(
            "hetrl_buffer_trajectories", "Trajectories accepted and not consumed."
        )
        self.running = gauge("hetrl_leased_trajectories", "Trajectories leased to rollout workers.")
        self.version = gauge("hetrl_policy_version", "The version being trained.")
        self.training_steps = gauge("hetrl_training_steps", "Steps that the job asks for.")
        self.reward_mean = gauge("hetrl_reward_mean", "Mean reward of the last batch.")
        self.reward_parts = gauge(
            "hetrl_reward_part_mean",
            "Mean of each of a job's rewards over the last batch, before weights.",
            ["part"],
        )
        self.predicted_step_seconds = gauge(
            "hetrl_plan_predicted_step_seconds",
            "What the plan expects of a step; absent prediction: 0.",
        )
