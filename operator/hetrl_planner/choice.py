"""A choice: which candidates, how many of each, and what the cost model says of it.

The MILP makes choices and ``plan_job`` compares them; on which machines they land is
``placement``'s.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hetrl_planner.candidates import RolloutCandidate, TrainingCandidate
from hetrl_planner.cost.iteration import (
    Stream,
    generation_window_seconds,
    mean_staleness,
    step_seconds,
)
from hetrl_planner.cost.serving import shared_places
from hetrl_planner.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutShare:
    """Replicas of one candidate that run alike."""

    candidate: RolloutCandidate
    num_replicas: int
    concurrency: float
    """Trajectories that one of them generates at once, on average."""

    @property
    def num_gpus(self) -> int:
        """GPUs of all replicas."""
        return self.num_replicas * self.candidate.split.num_gpus

    @property
    def samples_per_second(self) -> float:
        """Rate of all replicas together."""
        return self.num_replicas * self.candidate.samples_per_second(self.concurrency)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One training candidate and rollout replicas beside it."""

    work: Workload
    training: TrainingCandidate
    rollouts: tuple[RolloutShare, ...]
    sync_seconds: Mapping[str, float]
    """Weight synchronisation by the rollouts' region."""

    @cached_property
    def generation_seconds(self) -> float:
        """Time from one version to the next in which a batch is generated."""
        streams = [
            Stream(
                samples_per_second=share.samples_per_second,
                weight_sync_seconds=self.sync_seconds[share.candidate.site.region],
            )
            for share in self.rollouts
        ]
        return generation_window_seconds(streams, batch_size=self.work.batch_size)

    @property
    def training_seconds(self) -> float:
        """Time to train on one batch."""
        return self.training.total_seconds

    @property
    def weight_sync_seconds(self) -> float:
        """Longest wait of a rollout for new weights."""
        return max(self.sync_seconds[share.candidate.site.region] for share in self.rollouts)

    @property
    def step_seconds(self) -> float:
        """Time of one policy version."""
        return step_seconds(
            generation_seconds=self.generation_seconds,
            training_seconds=self.training_seconds,
            is_synchronous=self.work.is_synchronous,
        )

    @property
    def num_gpus(self) -> int:
        """GPUs of both sides."""
        return self.training.num_gpus + sum(share.num_gpus for share in self.rollouts)

    @property
    def dollars_per_hour(self) -> float:
        """Price of all GPUs."""
        training = self.training.num_gpus * self.training.site.kind.dollars_per_hour
        return training + sum(
            share.num_gpus * share.candidate.site.kind.dollars_per_hour for share in self.rollouts
        )

    @property
    def mean_staleness(self) -> float:
        """Expected staleness of an average trajectory, in versions."""
        return mean_staleness(
            step_seconds=self.step_seconds,
            generation_seconds=self.generation_seconds,
            training_seconds=self.training_seconds,
            running=sum(share.num_replicas * share.concurrency for share in self.rollouts),
            batch_size=self.work.batch_size,
            max_staleness=self.work.max_staleness,
        )

    @property
    def bottleneck(self) -> str:
        """What the slower side waits for, in words."""
        if self.training_seconds >= self.generation_seconds:
            return f"training: {self.training.time.binding} of the {self.training.site.kind.name}s"
        largest = max(self.rollouts, key=lambda share: share.samples_per_second)
        running = sum(share.num_replicas * share.concurrency for share in self.rollouts)
        places = sum(
            share.num_replicas * share.candidate.max_concurrency for share in self.rollouts
        )
        if places > running >= self.work.in_flight_limit - 1:
            return f"generation: staleness bound, {self.work.in_flight_limit} in flight"
        binding = largest.candidate.cost.binding(largest.concurrency)
        return f"generation: {binding} of the {largest.candidate.site.kind.name}s"


def with_concurrency(
    counts: Sequence[tuple[RolloutCandidate, int]], *, in_flight_limit: int
) -> tuple[RolloutShare, ...]:
    """Return the replicas of candidates with the concurrency at which they are fastest."""
    shared = shared_places(counts, in_flight_limit=in_flight_limit)
    return tuple(
        RolloutShare(candidate=candidate, num_replicas=replicas, concurrency=concurrency)
        for (candidate, replicas), concurrency in zip(counts, shared, strict=True)
    )
