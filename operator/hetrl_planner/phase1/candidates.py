"""Candidates: every useful way to run one replica on a site's GPUs.

``splits`` lists the cuts of a replica and ``cost`` prices them; the MILP counts the replicas.
"""

from dataclasses import dataclass
from functools import cached_property
from math import ceil

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.plan.plan import MemoryUse, Recompute, TrainingMode
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
from hetrl_planner.cost.shard import shards
from hetrl_planner.cost.stage import PlacedStage, uniform_stages
from hetrl_planner.cost.training import (
    Ring,
    TrainingPipeline,
    TrainingTime,
    pipeline,
    training_time,
)
from hetrl_planner.layout.fit.splits import (
    Split,
    fullest_rollout_gpu,
    fullest_training_gpu,
    modes_by_speed,
    replica_counts,
    splits,
)
from hetrl_planner.problem.sites import Site
from hetrl_planner.problem.workload import Workload


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
    """Seconds of the other tasks on these GPUs: scoring, and training the critic."""

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

    ``merge`` drops those that several smaller replicas on the same GPUs beat, which is only
    right while the number of replicas is free.
    """
    found = []
    for split in splits(site, work, Task.ACTOR_GENERATION, runnable_only=runnable_only):
        candidate = _rollout(site, split, work, snapshot)
        if candidate:
            found.append(candidate)
    kept = [
        each
        for each in found
        if not any(_outdoes(other, each, merge=merge) for other in found if other is not each)
    ]
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
        for candidate in copies.candidates(num_replicas)
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


def weights_between(
    work: Workload, snapshot: ClusterSnapshot, *, trainer_region: str, rollout_region: str
) -> WeightSync:
    """Return the path of a new version's weights to the rollouts of a region."""
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
    """Data-parallel copies of one split on one site; their common parts are priced once."""

    site: Site
    split: Split
    work: Workload
    snapshot: ClusterSnapshot

    def candidates(self, num_replicas: int) -> list[TrainingCandidate]:
        """Return the candidates in the first row of modes that fits."""
        for modes in modes_by_speed(num_replicas):
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
            side_seconds=(trained - 1) * (time.total_seconds - time.proximal_seconds)
            + (len(side) - trained) * scoring,
            memory=use,
        )

    @cached_property
    def _stages(self) -> tuple[PlacedStage, ...]:
        return uniform_stages(
            self.work.architecture,
            self.split.parallelism,
            self.site.kind,
            _stage_channel(self.site, self.split, self.snapshot),
        )

    @cached_property
    def _pipelines(self) -> dict[Recompute, TrainingPipeline]:
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
    # With machines of different sizes, maybe no single one holds all replicas.
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
    """Tell whether copies of one candidate replace another on no more GPUs."""
    copies, rest = divmod(worse.split.num_gpus, better.split.num_gpus)
    if rest or (copies > 1 and not merge) or better.split.share_size > worse.split.share_size:
        return False
    if copies * better.max_concurrency < worse.max_concurrency:
        return False
    return all(
        copies * better.samples_per_second(at / copies) >= worse.samples_per_second(at)
        and (
            copies > 1
            or _is_before(better, worse)
            or better.samples_per_second(at) > worse.samples_per_second(at)
        )
        for at in worse.concurrency_grid
    )


def _is_before(one: RolloutCandidate, other: RolloutCandidate) -> bool:
    """Order equally good candidates, so that only one of them is dropped."""
    return (one.split.share_size, one.split.parallelism.tensor) < (
        other.split.share_size,
        other.split.parallelism.tensor,
    )
