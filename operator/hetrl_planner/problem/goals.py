"""Goals and limits of plans. Every search compares by these."""

from dataclasses import dataclass

from hetrl_core.job.spec import JobSpec, MaximiseThroughput, MeetDeadline, MinimiseCost

DOLLARS_PER_GPU = 0.01
"""Added to the price of each GPU and hour while comparing, so that none is taken idle even
where GPUs cost nothing."""


ANY_STEP_SECONDS = 1e12
"""A step longer than that of any plan: the cheapest plan, or the smallest, at any pace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits that a plan may not exceed. ``None``: no limit."""

    budget_dollars_per_hour: float | None
    max_gpus: int | None
    min_replicas: int
    max_replicas: int | None


@dataclass(frozen=True, slots=True)
class Fastest:
    """The goal of the shortest step."""


@dataclass(frozen=True, slots=True)
class Cheapest:
    """The goal of the lowest price for a step of at most this length."""

    step_seconds: float


@dataclass(frozen=True, slots=True)
class FewestGpus:
    """The goal of the fewest GPUs for a step of at most this length, at any price."""

    step_seconds: float


Goal = Fastest | Cheapest | FewestGpus


def goal_of(job: JobSpec) -> Goal:
    """Return the goal of a job's plans; a deadline is a required step length."""
    match job.planning.objective:
        case MaximiseThroughput():
            return Fastest()
        case MinimiseCost(required_samples_per_second=required):
            return Cheapest(job.algorithm.global_batch_size / required)
        case MeetDeadline(seconds_left=left):
            return Cheapest(left / job.training.steps)
