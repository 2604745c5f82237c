"""Every way to run one replica that fits its GPUs, per site; the hopeless ones left out.

What each costs comes from ``cost``; how many of which are taken is the MILP's choice.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil

from hetrl_core.capabilities import split_obstacle
from hetrl_core.cluster import ClusterSnapshot
from hetrl_core.plan import MemoryUse, Parallelism
from hetrl_core.task import Task
from hetrl_planner.cost import memory
from hetrl_planner.cost.compute import BYTES_PER_WEIGHT
from hetrl_planner.cost.generation import GenerationCost
from hetrl_planner.cost.network import (
    Channel,
    between_machines,
    inside_machine,
    weight_sync_seconds,
)
from hetrl_planner.cost.shard import shards, split_layers
from hetrl_planner.cost.training import TrainingChannels, TrainingTime, training_time
from hetrl_planner.sites import SHARE_SIZES, Site
from hetrl_planner.workload import Workload

TENSOR_SIZES = SHARE_SIZES
STAGE_COUNTS = (1, 2, 3, 4, 6, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """How one replica is cut and laid on machines."""

    parallelism: Parallelism
    share_size: int
    """GPUs that it takes on each of its machines."""

    @property
    def num_gpus(self) -> int:
        """GPUs of one replica."""
        return self.parallelism.num_gpus

    @property
    def num_shares(self) -> int:
        """Shares of one replica, and machines unless two shares meet on one."""
        return self.num_gpus // self.share_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Tangent:
    """``intercept + slope·concurrency`` bounds a replica's rate, and is exact at ``at``."""

    at: int
    intercept: float
    slope: float


@dataclass(frozen=True, kw_only=True)
class RolloutCandidate:
    """One way to generate on one site."""

    site: Site
    split: Split
    cost: GenerationCost
    max_concurrency: int
    """Trajectories that the KV cache of one replica holds."""

    memory: MemoryUse
    """Of the fullest GPU at ``max_concurrency``."""

    def samples_per_second(self, concurrency: float) -> float:
        """Return one replica's rate with so many trajectories at once."""
        return self.cost.samples_per_second(concurrency)

    @cached_property
    def tangents(self) -> tuple[Tangent, ...]:
        """Lines that touch the rate from above at each point of the grid."""
        found = []
        for at in self.concurrency_grid:
            nearby = at * 1.001
            here = self.samples_per_second(at)
            slope = (self.samples_per_second(nearby) - here) / (nearby - at)
            found.append(Tangent(at=at, intercept=here - at * slope, slope=slope))
        return tuple(found)

    @cached_property
    def concurrency_grid(self) -> tuple[int, ...]:
        """Concurrencies at which the rate is looked at, a quarter apart."""
        grid = [1]
        while grid[-1] < self.max_concurrency:
            grid.append(min(self.max_concurrency, max(grid[-1] + 1, round(grid[-1] * 1.25))))
        return tuple(grid)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCandidate:
    """One way to train on one site: data-parallel copies of one split."""

    site: Site
    split: Split
    num_replicas: int
    time: TrainingTime
    memory: MemoryUse

    @property
    def num_gpus(self) -> int:
        """GPUs of all replicas."""
        return self.num_replicas * self.split.num_gpus


def rollout_candidates(
    site: Site, work: Workload, snapshot: ClusterSnapshot, *, runnable_only: bool, merge: bool
) -> tuple[RolloutCandidate, ...]:
    """Return the ways to generate on a site that fit its memory.

    ``merge`` leaves out those that several smaller replicas on the same GPUs outdo, which
    is only right while the number of replicas is free.
    """
    found = []
    for split in splits(site, work, Task.ACTOR_GENERATION, runnable_only=runnable_only):
        candidate = _rollout(site, split, work, snapshot)
        if candidate:
            found.append(candidate)
    kept = [
        each for each in found
        if not any(_outdoes(other, each, merge=merge) for other in found if other is not each)
    ]  # fmt: skip
    return tuple(kept)


def training_candidates(
    site: Site, work: Workload, snapshot: ClusterSnapshot, *, runnable_only: bool
) -> tuple[TrainingCandidate, ...]:
    """Return the ways to train on a site that fit its memory, none worse in every respect."""
    found: list[TrainingCandidate] = []
    for split in splits(site, work, Task.ACTOR_TRAINING, runnable_only=runnable_only):
        use = fullest_training_gpu(site, split, work)
        if use.total_bytes > site.kind.memory_bytes:
            continue
        most = site.capacity(split.share_size) // split.num_gpus
        found += [
            _training(site, split, work, snapshot, num_replicas=num_replicas, use=use)
            for num_replicas in replica_counts(work, most=most)
        ]
    found.sort(key=lambda each: (each.num_gpus, each.split.share_size, each.time.total_seconds))
    kept: list[TrainingCandidate] = []
    for each in found:
        if not any(
            other.time.total_seconds <= each.time.total_seconds
            and other.split.share_size <= each.split.share_size
            for other in kept
        ):
            kept.append(each)
    return tuple(kept)


def splits(site: Site, work: Workload, task: Task, *, runnable_only: bool) -> Iterator[Split]:
    """Yield every split that the site's machines and the model's dimensions allow.

    Tensor parallelism stays inside a machine and divides the query heads; pipeline stages
    may share a machine or not.
    """
    model = work.architecture
    for tensor in TENSOR_SIZES:
        if tensor > site.largest_machine_gpus or model.num_query_heads % tensor:
            continue
        for num_stages in STAGE_COUNTS:
            if num_stages > model.num_layers or tensor * num_stages > site.num_gpus:
                continue
            parallelism = Parallelism(tensor=tensor, stage_layers=split_layers(model, num_stages))
            if runnable_only and split_obstacle(task, parallelism, work.engine):
                continue
            for share_size in SHARE_SIZES:
                stages_per_share, rest = divmod(share_size, tensor)
                fits = share_size <= site.largest_machine_gpus
                if fits and not rest and stages_per_share and num_stages % stages_per_share == 0:
                    yield Split(parallelism=parallelism, share_size=share_size)


def replica_counts(work: Workload, *, most: int) -> list[int]:
    """Return the data-parallel sizes worth looking at: each the smallest for its largest share.

    A step waits for the replica with the most sequences, so a replica more helps only when
    it takes one from every other: about ``2·sqrt(B)`` sizes, however many GPUs there are.
    """
    per_minibatch = ceil(work.batch_size / work.minibatches)
    counts = {ceil(per_minibatch / ceil(per_minibatch / n)) for n in range(1, per_minibatch + 1)}
    return sorted(count for count in counts if count <= most)


def fullest_training_gpu(site: Site, split: Split, work: Workload) -> MemoryUse:
    """Return the memory of the fullest GPU of a training replica."""
    stages = shards(work.architecture, split.parallelism)
    return max(
        (
            memory.training_memory(stage, site.kind, work, passes_in_flight=len(stages) - number)
            for number, stage in enumerate(stages)
        ),
        key=lambda use: use.total_bytes,
    )


def fullest_rollout_gpu(site: Site, split: Split, work: Workload, *, concurrency: int) -> MemoryUse:
    """Return the memory of the fullest GPU of a rollout replica."""
    return max(
        (
            memory.generation_memory(stage, site.kind, work, concurrency=concurrency)
            for stage in shards(work.architecture, split.parallelism)
        ),
        key=lambda use: use.total_bytes,
    )


def sync_seconds(
    work: Workload, snapshot: ClusterSnapshot, *, trainer_region: str, rollout_region: str
) -> float:
    """Return how long a rollout stops for a new version's weights."""
    return weight_sync_seconds(
        BYTES_PER_WEIGHT * work.architecture.num_parameters,
        snapshot,
        trainer_region=trainer_region,
        rollout_region=rollout_region,
    )


def _rollout(
    site: Site, split: Split, work: Workload, snapshot: ClusterSnapshot
) -> RolloutCandidate | None:
    stages = shards(work.architecture, split.parallelism)
    concurrency = min(memory.max_concurrency(stage, site.kind, work) for stage in stages)
    if concurrency < 1:
        return None
    return RolloutCandidate(
        site=site,
        split=split,
        cost=GenerationCost(
            work=work,
            kind=site.kind,
            parallelism=split.parallelism,
            stage_channel=_stage_channel(site, split, snapshot),
        ),
        max_concurrency=concurrency,
        memory=fullest_rollout_gpu(site, split, work, concurrency=concurrency),
    )


def _training(
    site: Site,
    split: Split,
    work: Workload,
    snapshot: ClusterSnapshot,
    *,
    num_replicas: int,
    use: MemoryUse,
) -> TrainingCandidate:
    # Machines of different sizes may leave no single one to hold all replicas.
    on_one_machine = site.is_uniform and num_replicas * split.num_gpus <= site.largest_machine_gpus
    here = inside_machine(site.kind)
    away = between_machines(snapshot, site.region, site.region)
    time = training_time(
        work,
        site.kind,
        split.parallelism,
        num_replicas=num_replicas,
        channels=TrainingChannels(
            stage=_stage_channel(site, split, snapshot),
            data=here if on_one_machine else away,
            data_leaves_machine=not on_one_machine,
        ),
    )
    return TrainingCandidate(
        site=site, split=split, num_replicas=num_replicas, time=time, memory=use
    )


def _stage_channel(site: Site, split: Split, snapshot: ClusterSnapshot) -> Channel:
    """Return the slowest wire between neighbouring stages."""
    if split.num_shares == 1:
        return inside_machine(site.kind)
    return between_machines(snapshot, site.region, site.region)


def _outdoes(better: RolloutCandidate, worse: RolloutCandidate, *, merge: bool) -> bool:
    """Tell whether copies of one candidate do all that another does, on no more GPUs."""
    copies, rest = divmod(worse.split.num_gpus, better.split.num_gpus)
    if rest or (copies > 1 and not merge) or better.split.share_size > worse.split.share_size:
        return False
    if copies * better.max_concurrency < worse.max_concurrency:
        return False
    return all(
        copies * better.samples_per_second(at / copies) >= worse.samples_per_second(at)
        and (copies > 1 or _is_before(better, worse) or
             better.samples_per_second(at) > worse.samples_per_second(at))
        for at in worse.concurrency_grid
    )  # fmt: skip


def _is_before(one: RolloutCandidate, other: RolloutCandidate) -> bool:
    """Order candidates that are equally good, so that only one of them goes."""
    return (one.split.share_size, one.split.parallelism.tensor) < (
        other.split.share_size,
        other.split.parallelism.tensor,
    )
