"""Every way to run one replica that fits its GPUs, per site; the hopeless ones left out.

What each costs comes from ``cost``; how many of which are taken is the MILP's choice.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil

from hetrl_core.capabilities import split_obstacle
from hetrl_core.cluster import ClusterSnapshot
from hetrl_core.plan import REPLICATED, MemoryUse, Parallelism, Recompute, Sharding, TrainingMode
from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.cost import memory
from hetrl_planner.cost.compute import BYTES_PER_WEIGHT
from hetrl_planner.cost.generation import GenerationCost
from hetrl_planner.cost.inference import Pace, inference_pace
from hetrl_planner.cost.network import (
    Channel,
    WeightSync,
    between_machines,
    inside_machine,
    weight_sync,
)
from hetrl_planner.cost.serving import Serving
from hetrl_planner.cost.shard import shards, split_layers
from hetrl_planner.cost.stage import PlacedStage, uniform_stages
from hetrl_planner.cost.training import Pipeline, Ring, TrainingTime, pipeline, training_time
from hetrl_planner.sites import SHARE_SIZES, Site
from hetrl_planner.workload import Workload

TENSOR_SIZES = SHARE_SIZES
DIVIDED_MODES = (
    (TrainingMode(recompute=Recompute.NONE, sharding=Sharding.OPTIMIZER),),
    (
        TrainingMode(recompute=Recompute.FULL, sharding=Sharding.OPTIMIZER),
        TrainingMode(recompute=Recompute.NONE, sharding=Sharding.FULL),
    ),
    (TrainingMode(recompute=Recompute.FULL, sharding=Sharding.FULL),),
)
"""Of several replicas, in rows: see ``modes_by_speed``."""

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


@dataclass(frozen=True, kw_only=True)
class RolloutCandidate(Serving):
    """One way to generate on one site."""

    site: Site
    split: Split
    memory: MemoryUse
    """Of the fullest GPU at ``max_concurrency``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCandidate:
    """One way to train on one site: data-parallel copies of one split."""

    site: Site
    split: Split
    num_replicas: int
    mode: TrainingMode
    time: TrainingTime
    """Of the actor."""

    side_seconds: float
    """Of all else that happens on these GPUs: scoring, and training the critic."""

    memory: MemoryUse

    @property
    def num_gpus(self) -> int:
        """GPUs of all replicas."""
        return self.num_replicas * self.split.num_gpus

    @property
    def total_seconds(self) -> float:
        """Time from a generated batch to new weights."""
        return self.time.total_seconds + self.side_seconds


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
    found = [
        candidate
        for split in splits(site, work, Task.ACTOR_TRAINING, runnable_only=runnable_only)
        for copies in [_Copies(site, split, work, snapshot)]
        for num_replicas in replica_counts(
            work, most=site.capacity(split.share_size) // split.num_gpus
        )
        for candidate in copies.candidates(num_replicas, runnable_only=runnable_only)
    ]
    rated = sorted(
        ((each.num_gpus, each.split.share_size, each.total_seconds), number)
        for number, each in enumerate(found)
    )
    kept: list[tuple[int, float, TrainingCandidate]] = []
    for (_, share_size, seconds), number in rated:
        if not any(other <= seconds and size <= share_size for size, other, _ in kept):
            kept.append((share_size, seconds, found[number]))
    return tuple(candidate for *_, candidate in kept)


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
            if runnable_only and split_obstacle(task, parallelism, work.engine, model):
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


def modes_by_speed(
    num_replicas: int, *, runnable_only: bool
) -> tuple[tuple[TrainingMode, ...], ...]:
    """Return the ways to trade time for memory, in rows.

    None of a later row is faster than one of an earlier row that fits. One replica has nothing
    to divide. Several lose nothing by dividing the optimizer, which costs no more traffic, so
    leaving it whole is never better.
    """
    if runnable_only:
        return ((REPLICATED,),)
    if num_replicas == 1:
        return tuple((TrainingMode(recompute=each),) for each in (Recompute.NONE, Recompute.FULL))
    return DIVIDED_MODES


def fullest_training_gpu(
    site: Site,
    split: Split,
    work: Workload,
    *,
    mode: TrainingMode = REPLICATED,
    num_replicas: int = 1,
) -> MemoryUse:
    """Return the memory of the fullest GPU of the training side, all its tasks together."""
    stages = shards(work.architecture, split.parallelism)
    return max(
        (
            memory.together(
                [
                    memory.training_footprint(
                        stage,
                        work,
                        mode=mode,
                        num_replicas=num_replicas,
                        passes_in_flight=len(stages) - number,
                    )
                    if task in TRAINING_TASKS
                    else memory.inference_footprint(stage, work)
                    for task in work.training_side
                ],
                site.kind,
            )
            for number, stage in enumerate(stages)
        ),
        key=lambda use: use.total_bytes,
    )


def fullest_rollout_gpu(site: Site, split: Split, work: Workload, *, concurrency: int) -> MemoryUse:
    """Return the memory of the fullest GPU of a rollout replica."""
    return max(
        (
            memory.together(
                [memory.generation_footprint(stage, work, concurrency=concurrency)], site.kind
            )
            for stage in shards(work.architecture, split.parallelism)
        ),
        key=lambda use: use.total_bytes,
    )


def weights_between(
    work: Workload, snapshot: ClusterSnapshot, *, trainer_region: str, rollout_region: str
) -> WeightSync:
    """Return how a new version's weights reach the rollouts of a region."""
    return weight_sync(
        BYTES_PER_WEIGHT * work.architecture.num_parameters,
        snapshot,
        trainer_shares={trainer_region: 1.0},
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
            stages=uniform_stages(
                work.architecture,
                split.parallelism,
                site.kind,
                _stage_channel(site, split, snapshot),
            ),
        ),
        max_concurrency=concurrency,
        memory=fullest_rollout_gpu(site, split, work, concurrency=concurrency),
    )


@dataclass(frozen=True)
class _Copies:
    """Data-parallel copies of one split on one site; what they have in common is priced once."""

    site: Site
    split: Split
    work: Workload
    snapshot: ClusterSnapshot

    def candidates(self, num_replicas: int, *, runnable_only: bool) -> list[TrainingCandidate]:
        """Return the candidates in the first row of modes that fits."""
        for modes in modes_by_speed(num_replicas, runnable_only=runnable_only):
            found = [self._candidate(num_replicas, mode) for mode in modes]
            if any(found):
                return [each for each in found if each]
        return []

    def _candidate(self, num_replicas: int, mode: TrainingMode) -> TrainingCandidate | None:
        use = fullest_training_gpu(
            self.site, self.split, self.work, mode=mode, num_replicas=num_replicas
        )
        if use.total_bytes > self.site.kind.memory_bytes:
            return None
        per_minibatch = ceil(self.work.batch_size / self.work.minibatches)
        time = training_time(
            self.work,
            [(self._pipelines[mode.recompute], ceil(per_minibatch / num_replicas))],
            _rings(self.site, self.split, self.work, self.snapshot, num_replicas=num_replicas),
            mode=mode,
        )
        scoring = self._scoring.seconds(ceil(self.work.batch_size / num_replicas))
        side = self.work.training_side
        trained = sum(task in TRAINING_TASKS for task in side)
        return TrainingCandidate(
            site=self.site,
            split=self.split,
            num_replicas=num_replicas,
            mode=mode,
            time=time,
            side_seconds=(trained - 1) * time.total_seconds + (len(side) - trained) * scoring,
            memory=use,
        )

    @cached_property
    def _stages(self) -> tuple[PlacedStage, ...]:
        return uniform_stages(
            self.work.architecture, self.split.parallelism, self.site.kind,
            _stage_channel(self.site, self.split, self.snapshot),
        )  # fmt: skip

    @cached_property
    def _pipelines(self) -> dict[Recompute, Pipeline]:
        return {each: pipeline(self.work, self._stages, recompute=each) for each in Recompute}

    @cached_property
    def _scoring(self) -> Pace:
        return inference_pace(self.work, self._stages)


def _rings(
    site: Site, split: Split, work: Workload, snapshot: ClusterSnapshot, *, num_replicas: int
) -> list[Ring]:
    """Return the rings of gradients, one for each set of stages that leave a machine together.

    A machine is filled with neighbouring stages, and all of them share its way out.
    """
    # Machines of different sizes may leave no single one to hold all replicas.
    on_one_machine = site.is_uniform and num_replicas * split.num_gpus <= site.largest_machine_gpus
    sizes = [
        BYTES_PER_WEIGHT * stage.num_parameters
        for stage in shards(work.architecture, split.parallelism)
    ]
    if on_one_machine:
        channel = inside_machine(site.kind)
        return [Ring(members=num_replicas, channel=channel, wire_bytes=size) for size in sizes]
    channel = between_machines(snapshot, site.region, site.region)
    tensor = split.parallelism.tensor
    step = min(len(sizes), max(1, site.largest_machine_gpus // tensor))
    return [
        Ring(
            members=num_replicas,
            channel=channel,
            wire_bytes=tensor * sum(sizes[first : first + step]),
        )
        for first in range(0, len(sizes), step)
    ]


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
