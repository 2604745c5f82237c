"""What the trainer measures: its steps, and how long it waits for data and for checkpoints."""

from prometheus_client import CollectorRegistry, Gauge, Histogram

SECONDS_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000)


class TrainerMetrics:
    """The trainer's series."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.step = Gauge("hetrl_trainer_step", "Steps done.", registry=registry)
        self.step_seconds = Histogram(
            "hetrl_trainer_step_seconds",
            "Whole steps, waiting included.",
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
        self.wait_seconds = Histogram(
            "hetrl_trainer_wait_seconds",
            "Waiting for a batch, per step.",
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
        self.checkpoint_seconds = Histogram(
            "hetrl_trainer_checkpoint_seconds",
            "Writing a checkpoint, beside training.",
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
        self.checkpoint_stall_seconds = Histogram(
            "hetrl_trainer_checkpoint_stall_seconds",
            "Training held up by a checkpoint, for its copy and for the one before.",
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
