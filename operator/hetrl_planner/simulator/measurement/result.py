"""The result of a simulation: rates, shares, staleness, work, dollars.

Everything but ``work``, ``events`` and ``timeline`` is measured after the warm-up.
"""

from dataclasses import dataclass
from typing import Literal

EndedBy = Literal["steps", "stalled", "events", "time"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Many values in three numbers."""

    mean: float
    p95: float
    max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StalenessResult:
    """Staleness of the trajectories that were trained on, in versions."""

    histogram: tuple[int, ...]
    """At ``n``: trajectories of staleness ``n``."""

    mean: float
    p95: int
    max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutUse:
    """How a group of replicas spent its time, as shares that sum to one."""

    name: str
    replicas: int
    generating_share: float
    """With something running, and not stopped."""

    idle_share: float
    """With nothing to run: the bound, the queue or the batch held it back."""

    weights_share: float
    """Stopped for new weights."""

    yielded_share: float
    """Its GPUs were another task's."""

    lost_share: float
    mean_running: float
    """Trajectories at once on one replica, on average over all the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageUse:
    """How an inference stage spent its servers' time."""

    name: str
    servers: int
    idle_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkCounts:
    """Outcomes of all leases from the first second on; the others sum to ``granted``."""

    granted: int
    consumed: int
    """Trained on, also by steps that were lost with the trainer later."""

    buffered: int
    running: int
    rejected: int
    withdrawn: int
    expired: int
    filtered: int
    fenced: int

    @property
    def discarded(self) -> int:
        """Trajectories, whole or partial, that were not trained on."""
        return self.rejected + self.withdrawn + self.expired + self.filtered + self.fenced


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCounts:
    """Numbers of failures and lost steps."""

    replicas: int
    trainers: int
    steps: int
    """Versions that were trained and rewound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dollars:
    """The price of the measured time."""

    gpus: float
    egress: float
    per_hour: float
    """Both together."""

    per_thousand_samples: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One version, as the timeline shows it."""

    version: int
    ended_at_seconds: float
    seconds: float
    mean_staleness: float
    trainer_idle_share: float
    rollout_idle_share: float
    """Over all groups, by replicas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult:
    """One simulated run."""

    ended_by: EndedBy
    """``stalled``: nothing more could happen. ``events``: too many without a newer version.
    ``time``: the limit was reached."""

    reason: str
    """Why it ended before its steps; empty if it did not."""

    steps: int
    """Versions of the surviving history."""

    measured_steps: int
    """Those after the warm-up, or 0: then the figures are of the whole run."""

    seconds: float
    """Of the measured time."""

    samples_per_second: float
    tokens_per_second: float
    step_seconds: Spread
    staleness: StalenessResult
    trainer_idle_share: float
    trainer_lost_share: float
    rollouts: tuple[RolloutUse, ...]
    stages: tuple[StageUse, ...]
    generated_tokens: float
    discarded_tokens: float
    transferred_gib: float
    dollars: Dollars
    work: WorkCounts
    failures: FailureCounts
    events: int
    simulated_seconds: float
    """Of the whole run, warm-up included."""

    timeline: tuple[StepRecord, ...]
