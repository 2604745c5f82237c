"""Time of a plan's training on the fleet as it is, by the cost model.

A plan states rates of its own; they are those of the fleet that it was made for.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.plan.plan import REPLICATED, ReplicaGroup
from hetrl_core.task import Task
from hetrl_planner.cost.compute import BYTES_PER_WEIGHT
from hetrl_planner.cost.network import (
    Channel,
    Place,
    between_machines,
    hop_sharing,
    inside_machine,
    ring_through,
)
from hetrl_planner.cost.stage import PlacedStage
from hetrl_planner.cost.training import Ring, TrainingTime, pipeline, training_time
from hetrl_planner.cost.weights import gather_seconds
from hetrl_planner.problem.workload import Workload
from hetrl_planner.simulator.pipeline.placed import PlacedGroup, StagePlace, stages_of


class TrainingCosts:
    """The training times of one plan."""

    def __init__(
        self,
        placed: Sequence[PlacedGroup],
        work: Workload,
        snapshot: ClusterSnapshot,
        stages: Callable[[ReplicaGroup], Sequence[PlacedStage]],
    ) -> None:
        """Take a plan's groups; ``stages`` returns those of a group's replicas."""
        self._placed = placed
        self._work = work
        self._snapshot = snapshot
        self._stages = stages

    def time(self, task: Task) -> TrainingTime:
        """Return the time in which all replicas of a task train on one batch."""
        groups = [each.group for each in self._placed if task in each.trained_by]
        mode = groups[0].training_mode or REPLICATED
        per_minibatch = -(-self._work.batch_size // self._work.minibatches)
        shares = [
            (
                pipeline(
                    self._work, self._stages(group), recompute=mode.recompute, sharing=sharing
                ),
                max(1, round(per_minibatch * max(each.work_share for each in group.replicas))),
            )
            for group, sharing in zip(groups, self._sharing(groups), strict=True)
        ]
        return training_time(
            self._work,
            shares,
            list(self._rings(groups)),
            mode=mode,
            gather_seconds=self._gather_seconds(groups[0]) if task is Task.ACTOR_TRAINING else 0.0,
        )

    def _sharing(self, groups: Sequence[ReplicaGroup]) -> Iterator[list[float]]:
        """Yield by group the parts of its hops' bandwidth: of its replicas' the most, by stage."""
        hops: list[tuple[Place, Place]] = []
        for group in groups:
            for replica in group.replicas:
                places = [(each.machine, each.region) for each in stages_of(group, replica)]
                hops += pairwise(places)
        parts = iter(hop_sharing(self._snapshot, hops))
        for group in groups:
            between = group.parallelism.num_stages - 1
            rows = [list(islice(parts, between)) for _ in group.replicas]
            yield [*map(max, zip(*rows, strict=True)), 1.0]

    def _rings(self, groups: Sequence[ReplicaGroup]) -> Iterator[Ring]:
        """Yield the gradients' ring of each stage; those that leave a machine share its network."""
        replicas = [stages_of(group, each) for group in groups for each in group.replicas]
        rows = [list(row) for row in zip(*replicas, strict=True)]
        shards = [stage.shard for stage in self._stages(groups[0])]
        sizes = [BYTES_PER_WEIGHT * shard.num_parameters for shard in shards]
        machines = [{place.machine for place in row} for row in rows]
        leaving: dict[str, float] = defaultdict(float)
        for size, shard, names in zip(sizes, shards, machines, strict=True):
            for name in names if len(names) > 1 else ():
                leaving[name] += size * shard.tensor
        for size, row, names in zip(sizes, rows, machines, strict=True):
            yield Ring(
                members=len(row),
                channel=self._ring(row, names),
                wire_bytes=size if len(names) == 1 else max(leaving[name] for name in names),
            )

    def _ring(self, row: Sequence[StagePlace], machines: set[str]) -> Channel:
        if len(machines) == 1:
            return inside_machine(self._snapshot.kind(row[0].gpu_kind))
        return ring_through(self._snapshot, tuple(sorted({place.region for place in row})))

    def _gather_seconds(self, group: ReplicaGroup) -> float:
        """Return the time to gather a policy's weights from the stages of its first replica."""
        places = stages_of(group, group.replicas[0])
        return gather_seconds(
            (
                BYTES_PER_WEIGHT * stage.shard.num_parameters * stage.shard.tensor,
                self._way(place, places[0]) if number else None,
            )
            for number, (stage, place) in enumerate(zip(self._stages(group), places, strict=True))
        )

    def _way(self, place: StagePlace, first: StagePlace) -> Channel:
        if place.machine == first.machine:
            return inside_machine(self._snapshot.kind(place.gpu_kind))
        return between_machines(self._snapshot, place.region, first.region)
