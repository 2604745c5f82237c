"""Metrics of the trainer: its steps, their effect on the policy, and their delays."""

from collections.abc import Mapping
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000)

_FIGURES = {
    "loss": ("loss", "Loss of the last step, whatever its terms."),
    "entropy": ("entropy_nats", "Mean entropy of the policy's next token."),
    "gradient_norm": ("gradient_norm", "Norm of the gradient before it was clipped."),
    "clip_fraction": ("clipped_ratio", "Share of tokens whose ratio was clipped."),
    "behaviour_weight": (
        "behaviour_weight",
        "Mean importance weight from the policy that sampled to the one before the step.",
    ),
    "behaviour_kl": ("behaviour_kl_nats", "How far the policies that sampled were behind."),
    "reference_kl": ("reference_kl_nats", "How far the policy is from the reference; without: 0."),
    "engine_difference": (
        "engine_difference_nats",
        "Mean distance of trainer's and engine's log-probabilities under the same weights.",
    ),
    "learning_rate": ("learning_rate", "Learning rate of the last step."),
}
"""A figure of a step's report to its series and what that means. Names of a critic's figures are
in the records of steps only."""


class TrainerMetrics:
    """The trainer's series."""

    def __init__(self, registry: CollectorRegistry) -> None:
        gauge = partial(Gauge, registry=registry)
        histogram = partial(Histogram, buckets=SECONDS_BUCKETS, registry=registry)
        self.step = gauge("hetrl_trainer_step", "Steps done.")
        self.step_seconds = histogram(
            "hetrl_trainer_step_seconds", "Whole steps, waiting included."
        )
        self.wait_seconds = histogram(
            "hetrl_trainer_wait_seconds", "Waiting for a batch, per step."
        )
        self.checkpoint_seconds = histogram(
            "hetrl_trainer_checkpoint_seconds", "Writing a checkpoint, during training."
        )
        self.checkpoint_stall_seconds = histogram(
            "hetrl_trainer_checkpoint_stall_seconds",
            "Training held up by a checkpoint, for its copy and for the one before.",
        )
        self.tokens = Counter(
            "hetrl_trainer_tokens", "Response tokens trained on.", registry=registry
        )
        self.skipped_steps = Counter(
            "hetrl_trainer_skipped_steps",
            "Optimizer steps that were not made, by the number that was not finite.",
            ["kind"],
            registry=registry,
        )
        self.last_step_at = gauge(
            "hetrl_trainer_last_step_timestamp_seconds",
            "When the last step was committed, as Unix time.",
        )
        self._figures = {
            figure: gauge(f"hetrl_trainer_{name}", help_)
            for figure, (name, help_) in _FIGURES.items()
        }

    def show(self, figures: Mapping[str, float]) -> None:
        """Show the figures of a step; one of its warm-up has none."""
        for name, gauge in self._figures.items():
            if name in figures:
                gauge.set(figures[name])
