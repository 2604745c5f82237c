"""Every split of one replica that a site's machines and a model's dimensions allow.

Also its numbers of copies, the state that they may divide, and the memory that it needs.
``candidates`` prices it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from hetrl_core.plan.capabilities import split_obstacle
from hetrl_core.plan.plan import MemoryUse, Parallelism, Recompute, Sharding, TrainingMode
from hetrl_core.task import TRAINING_TASKS, Task, asked_of_workers
from hetrl_planner.cost import memory
from hetrl_planner.cost.shard import shards, split_layers
from hetrl_planner.problem.sites import SHARE_SIZES, Site
from hetrl_planner.problem.workload import Workload

TENSOR_SIZES = SHARE_SIZES
DIVIDED_MODES = (
    (TrainingMode(recompute=Recompute.NONE, sharding=Sharding.OPTIMIZER),),
    (
        TrainingMode(recompute=Recompute.FULL, sharding=Sharding.OPTIMIZER),
        TrainingMode(recompute=Recompute.NONE, sharding=Sharding.FULL),
    ),
    (TrainingMode(recompute=Recompute.FULL, sharding=Sharding.FULL),),
)
"""Training modes of several replicas, in rows: see ``modes_by_speed``."""

STAGE_COUNTS = (1, 2, 3, 4, 6, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The split of one replica and its shares of machines."""

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


def splits(site: Site, work: Workload, task: Task, *, runnable_only: bool) -> Iterator[Split]:
    """Yield every split that the site's machines and the model's dimensions allow.

    Tensor parallelism stays inside a machine and divides the query heads; pipeline stages
    may share a machine or not.
    """
    model = work.architecture
    tasks = deciding(work.training_side) if task is Task.ACTOR_TRAINING else (task,)
    for parallelism in _parallelisms(site, work):
        if runnable_only and any(
            split_obstacle(each, parallelism, work.engine, model) for each in tasks
        ):
            continue
        for share_size in SHARE_SIZES:
            if share_size <= site.largest_machine_gpus and _divides(parallelism, share_size):
                yield Split(parallelism=parallelism, share_size=share_size)


def _parallelisms(site: Site, work: Workload) -> Iterator[Parallelism]:
    model = work.architecture
    for tensor in TENSOR_SIZES:
        if tensor > site.largest_machine_gpus or model.num_query_heads % tensor:
            continue
        for num_stages in STAGE_COUNTS:
            if num_stages <= model.num_layers and tensor * num_stages <= site.num_gpus:
                yield Parallelism(tensor=tensor, stage_layers=split_layers(model, num_stages))


def _divides(parallelism: Parallelism, share_size: int) -> bool:
    """Return whether shares of this size hold whole stages, and the same number each."""
    stages_per_share, rest = divmod(share_size, parallelism.tensor)
    if rest or not stages_per_share:
        return False
    return parallelism.num_stages % stages_per_share == 0


def deciding(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Return the tasks of a group, all cut alike, that determine its possible splits.

    Every model in a trainer is cut as the one that is trained; separate programs must support the
    split too.
    """
    trained = [task for task in (Task.ACTOR_TRAINING, Task.CRITIC_TRAINING) if task in tasks]
    served = {Task.ACTOR_GENERATION, *asked_of_workers(tasks)}
    return (*trained[:1], *(task for task in tasks if task in served))


def replica_counts(work: Workload, *, most: int) -> list[int]:
    """Return the data-parallel sizes worth trying: each the smallest for its largest share.

    A step waits for the replica with the most sequences, so one more replica helps only if
    it takes one from every other: about ``2·sqrt(B)`` sizes, however many GPUs there are.
    """
    per_minibatch = ceil(work.batch_size / work.minibatches)
    counts = {ceil(per_minibatch / ceil(per_minibatch / n)) for n in range(1, per_minibatch + 1)}
    return sorted(count for count in counts if count <= most)


def modes_by_speed(num_replicas: int) -> tuple[tuple[TrainingMode, ...], ...]:
    """Return the ways to trade time for memory, in rows.

    None of a later row is faster than one of an earlier row that fits. One replica has nothing
    to divide. Several lose nothing by dividing the optimizer, which costs no more traffic, so
    leaving it whole is never better.
    """
    if num_replicas == 1:
        return tuple((TrainingMode(recompute=each),) for each in (Recompute.NONE, Recompute.FULL))
    return DIVIDED_MODES


def leanest_training(site: Site, split: Split, work: Workload) -> tuple[int, MemoryUse]:
    """Return how many replicas of a split need the least memory, and that of the fullest GPU."""
    counts = replica_counts(work, most=site.capacity(split.share_size) // split.num_gpus)
    num_replicas = max(counts, default=1)
    mode = modes_by_speed(num_replicas)[-1][0]
    return num_replicas, fullest_training_gpu(
        site, split, work, mode=mode, num_replicas=num_replicas
    )


def fullest_training_gpu(
    site: Site, split: Split, work: Workload, *, mode: TrainingMode, num_replicas: int
) -> MemoryUse:
    """Return the memory of the fullest GPU of the training side, all its tasks together."""
    stages = shards(work.architecture, split.parallelism)
    more = memory.more_programs(work.training_side, work)
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
                    else memory.inference_footprint(stage, work, task)
                    for task in work.training_side
                ]
                + [*more],
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
