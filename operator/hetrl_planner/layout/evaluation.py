"""The predicted cost of a layout: seconds, bytes, dollars and staleness of one version."""

from collections.abc import Mapping
from dataclasses import dataclass

from hetrl_core.task import Task
from hetrl_planner.layout.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCost:
    """One task of an iteration."""

    seconds: float
    """For one batch, by all of its replicas."""

    shares: tuple[float, ...]
    """Of the batch, by replica; they sum to 1."""

    rates: tuple[float, ...]
    """Trajectories a second, by replica, while it works."""

    binding: str
    """The term that takes the largest part of the time."""

    proximal_seconds: float = 0.0
    """The part of these seconds before training's first gradient of a batch."""

    is_held_back: bool = False
    """Whether generation could run more at once, but the staleness bound forbids it."""

    concurrency: tuple[int, ...] = ()
    """Trajectories at once, by replica; only of generation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A layout that fits, and its cost."""

    layout: Layout
    step_seconds: float
    tasks: Mapping[Task, TaskCost]
    training_side_seconds: float
    """From a generated batch to new weights: scoring, then training."""

    weight_sync_seconds: float
    """Longest wait of a rollout for new weights."""

    running: float
    """Trajectories generated at once, on average."""

    gpu_dollars_per_hour: float
    egress_dollars_per_step: float
    mean_staleness: float
    bottleneck: str

    @property
    def dollars_per_hour(self) -> float:
        """Price of the GPUs, and of the bytes that leave a region."""
        return self.gpu_dollars_per_hour + self.egress_dollars_per_step * 3600 / self.step_seconds

    @property
    def num_gpus(self) -> int:
        """GPUs in use."""
        return len(self.layout.gpus)


@dataclass(frozen=True, slots=True)
class Misfit:
    """A layout that some GPU cannot hold."""

    reason: str
    excess: float
    """Bytes needed over bytes available, above 1: searches prefer the smaller of two misfits."""
