"""A choice: the number of each candidate, and its cost.

The MILP makes choices and ``plan_job`` compares them; ``placement`` selects their machines.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from hetrl_planner.cost.iteration import mean_staleness, step_seconds
from hetrl_planner.cost.network import WeightSync
from hetrl_planner.cost.rollouts import Generated, OtherStepParts, Rollouts, generated
from hetrl_planner.phase1.candidates import RolloutCandidate, TrainingCandidate
from hetrl_planner.problem.workload import Workload

SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutShare:
    """Replicas of one candidate that run alike."""

    candidate: RolloutCandidate
    num_replicas: int

    @property
    def num_gpus(self) -> int:
        """GPUs of all replicas."""
        return self.num_replicas * self.candidate.split.num_gpus


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One training candidate and rollout replicas beside it."""

    work: Workload
    training: TrainingCandidate
    rollouts: tuple[RolloutShare, ...]
    weights: Mapping[str, WeightSync]
    """The wait of rollouts for a new version, by their region."""

    @cached_property
    def _generated(self) -> Generated:
        rollouts = [
            Rollouts(
                serving=share.candidate,
                num_replicas=share.num_replicas,
                weights=self.weights[share.candidate.site.region],
            )
            for share in self.rollouts
        ]
        return generated(
            rollouts,
            self.work,
            OtherStepParts(
                training_side_seconds=self.training_seconds, others_seconds=self.training_seconds
            ),
        )

    @property
    def useful(self) -> "Choice":
        """The choice without rollouts that never generate anything in time.

        They stay if the job requests so many.
        """
        used = tuple(
            share for share, at_once in zip(self.rollouts, self.concurrency, strict=True) if at_once
        )
        enough = sum(share.num_replicas for share in used) >= self.work.min_replicas
        return replace(self, rollouts=used) if enough else self

    @property
    def generation_seconds(self) -> float:
        """Time from one version to the next in which a batch is generated."""
        return self._generated.seconds

    @property
    def concurrency(self) -> tuple[float, ...]:
        """Trajectories that one replica of each share generates at once, on average."""
        return self._generated.concurrency

    @property
    def samples_per_second(self) -> tuple[float, ...]:
        """Rate of all replicas of each share together."""
        return tuple(
            share.num_replicas * share.candidate.samples_per_second(at_once)
            for share, at_once in zip(self.rollouts, self.concurrency, strict=True)
        )

    @property
    def _running(self) -> float:
        return sum(
            share.num_replicas * at_once
            for share, at_once in zip(self.rollouts, self.concurrency, strict=True)
        )

    @property
    def training_seconds(self) -> float:
        """Time to train on one batch."""
        return self.training.total_seconds

    @property
    def weight_sync_seconds(self) -> float:
        """Longest wait of a rollout for new weights."""
        return max(
            self.weights[share.candidate.site.region].total_seconds for share in self.rollouts
        )

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
        """Price of all GPUs, and of the weights that are sent into other regions."""
        training = self.training.num_gpus * self.training.site.kind.dollars_per_hour
        rollouts = sum(
            share.num_gpus * share.candidate.site.kind.dollars_per_hour for share in self.rollouts
        )
        return training + rollouts + self.egress_dollars_per_hour(self.step_seconds)

    def egress_dollars_per_hour(self, step_seconds: float) -> float:
        """Return the price of weights at a pace, one copy a version and region."""
        regions = {share.candidate.site.region for share in self.rollouts}
        once = sum(self.weights[region].egress_dollars for region in regions)
        return once * SECONDS_PER_HOUR / step_seconds

    @property
    def mean_staleness(self) -> float:
        """Expected staleness of an average trajectory, in versions."""
        return mean_staleness(
            step_seconds=self.step_seconds,
            generation_seconds=self.generation_seconds,
            training_seconds=self.training_seconds,
            running=self._running,
            batch_size=self.work.batch_size,
            max_staleness=self.work.max_staleness,
        )

    @property
    def bottleneck(self) -> str:
        """The limit of the slower side, in words."""
        if self.training_seconds >= self.generation_seconds:
            return f"training: {self.training.time.binding} of the {self.training.site.kind.name}s"
        rates = self.samples_per_second
        number = max(range(len(rates)), key=lambda each: rates[each])
        largest, at_once = self.rollouts[number].candidate, self.concurrency[number]
        if at_once < largest.max_concurrency - 1:
            return f"generation: {self.work.limit_on_running}"
        return f"generation: {largest.cost.binding(at_once)} of the {largest.site.kind.name}s"
