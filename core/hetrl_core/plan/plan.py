"""Plans: the machines of each task, the split of each model, and the prediction.

A plan describes replicas on machines. ``pod_sets`` derives pods from it.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from hetrl_core.job.spec import Strategy
from hetrl_core.limits import at_least
from hetrl_core.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallelism:
    """How one replica is split: tensor parallel inside each of its pipeline stages."""

    tensor: int
    stage_layers: tuple[int, ...]
    """Layers of each pipeline stage, first to last; one entry is no pipeline."""

    def __post_init__(self) -> None:
        at_least("tensor parallelism", self.tensor, 1)
        if not self.stage_layers or min(self.stage_layers) < 1:
            raise ValueError(f"each pipeline stage needs a layer, got {self.stage_layers}")

    @property
    def num_stages(self) -> int:
        """Pipeline stages."""
        return len(self.stage_layers)

    @property
    def num_gpus(self) -> int:
        """GPUs of one replica."""
        return self.tensor * self.num_stages

    def __str__(self) -> str:
        return f"tp{self.tensor}·pp{self.num_stages}"


class Recompute(StrEnum):
    """What backward computes a second time instead of keeping it."""

    FULL = "Full"
    NONE = "None"


class Sharding(StrEnum):
    """What data-parallel replicas divide among themselves (Rajbhandari et al., ZeRO, 2020)."""

    NONE = "None"
    OPTIMIZER = "Optimizer"
    """Master weights and moments: ZeRO-1."""

    FULL = "Full"
    """Weights and gradients too, gathered for each pass: ZeRO-3, FSDP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingMode:
    """How training trades time and traffic for memory."""

    recompute: Recompute = Recompute.FULL
    sharding: Sharding = Sharding.NONE


REPLICATED = TrainingMode()
"""Every replica holds everything, and recomputes its activations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """GPUs of one machine that a replica takes."""

    machine: str
    num_gpus: int
    first_gpu: int | None = None
    """The first of its GPUs on the machine, said only where tasks share GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One complete copy of a model serving or training, and the GPUs it runs on."""

    shares: tuple[Share, ...]
    """In rank order: the first pipeline stage's GPUs first."""

    work_share: float = 1.0
    """Share of its task's trajectories, over all replicas of the task group summing to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """Bytes on the fullest GPU of a replica, by part."""

    weights_bytes: int
    gradients_bytes: int = 0
    optimizer_bytes: int = 0
    activations_bytes: int = 0
    kv_cache_bytes: int = 0
    overhead_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """All parts together."""
        return (
            self.weights_bytes
            + self.gradients_bytes
            + self.optimizer_bytes
            + self.activations_bytes
            + self.kv_cache_bytes
            + self.overhead_bytes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaGroup:
    """Replicas of one task group that are alike: same GPU kind, region and split."""

    tasks: tuple[Task, ...]
    """Tasks that share these GPUs."""

    gpu_kind: str
    """Of the first stage; of all, unless ``stage_sites`` says otherwise."""

    region: str
    """Of the first stage, likewise."""

    parallelism: Parallelism
    replicas: tuple[Replica, ...]
    stage_sites: tuple[tuple[str, str], ...] = ()
    """GPU kind and region of each stage, where a replica spans several; else empty."""

    training_mode: TrainingMode | None = None
    """None where nothing is trained."""

    concurrency: int = 0
    """Trajectories that one replica generates at once; 0 where nothing is generated."""

    samples_per_second: float = 0.0
    """Predicted rate of one replica."""

    memory: MemoryUse

    @property
    def gpu_kinds(self) -> frozenset[str]:
        """The kinds of GPU that its stages are on."""
        return frozenset({self.gpu_kind, *(kind for kind, _ in self.stage_sites)})

    def site(self, stage: int) -> tuple[str, str]:
        """Return the GPU kind and region of one stage."""
        return self.stage_sites[stage] if self.stage_sites else (self.gpu_kind, self.region)

    @property
    def num_gpus(self) -> int:
        """GPUs of all replicas."""
        return len(self.replicas) * self.parallelism.num_gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What the cost model expects of the plan, per policy version."""

    step_seconds: float
    generation_seconds: float
    training_seconds: float
    weight_sync_seconds: float
    samples_per_second: float
    dollars_per_hour: float
    mean_staleness: float
    bottleneck: str
    """What binds, in words: ``generation: HBM bandwidth of the L4s``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """An alternative that lost, and why."""

    summary: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A decision that can be deployed."""

    strategy: Strategy
    groups: tuple[ReplicaGroup, ...]
    prediction: Prediction
    gap: float | None = None
    """Distance from the best bound known, as a share of it; None where no bound is known."""

    rejected: tuple[Rejected, ...] = ()
    ended_by: Literal["work", "time"] = "work"
    """Only a search ended by work, not by the clock, is repeatable."""

    seed: int = 1

    @property
    def num_gpus(self) -> int:
        """GPUs of every group, those that tasks share counted once."""
        shared = {
            (share.machine, share.first_gpu + offset)
            for share in self._shares
            if share.first_gpu is not None
            for offset in range(share.num_gpus)
        }
        own = sum(share.num_gpus for share in self._shares if share.first_gpu is None)
        return len(shared) + own

    @property
    def _shares(self) -> tuple[Share, ...]:
        return tuple(
            share for group in self.groups for replica in group.replicas for share in replica.shares
        )

    def groups_with(self, task: Task) -> tuple[ReplicaGroup, ...]:
        """Return the groups that do a task."""
        return tuple(group for group in self.groups if task in group.tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Infeasible:
    """No plan exists within the limits; every reason in words."""

    reasons: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.reasons:
            raise ValueError("an infeasible outcome needs at least one reason")


Outcome = Plan | Infeasible
