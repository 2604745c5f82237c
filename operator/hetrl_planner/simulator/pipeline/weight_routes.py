"""Weight routes of a plan to each region's rollouts: sent there, or gathered in place.

The cost model prices transfers; ``weights`` schedules them and shares links.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.plan.plan import Replica, ReplicaGroup
from hetrl_core.task import Task
from hetrl_core.units import GIB
from hetrl_planner.cost.compute import BYTES_PER_WEIGHT
from hetrl_planner.cost.network import between_machines, inside_machine, weight_sync
from hetrl_planner.cost.resharding import ServedStage, Source, reshard_seconds
from hetrl_planner.problem.workload import Workload
from hetrl_planner.simulator.pipeline.pipeline import WeightRoute
from hetrl_planner.simulator.pipeline.placed import PlacedGroup, StagePlace, stages_of


def weight_routes(
    placed: Sequence[PlacedGroup], work: Workload, snapshot: ClusterSnapshot
) -> tuple[WeightRoute, ...]:
    """Return one route for each region in which something generates."""
    generation = [each for each in placed if Task.ACTOR_GENERATION in each.group.tasks]
    training = [each for each in placed if Task.ACTOR_TRAINING in each.trained_by]
    routes = _Routes([each.group for each in training], work, snapshot)
    in_turns = {each.shared for each in training if each.shared}
    found = []
    for region in dict.fromkeys(each.group.region for each in generation):
        here = [each for each in generation if each.group.region == region]
        gathering = [each.group for each in here if each.shared in in_turns]
        found.append(routes.gathered(region, gathering) if gathering else routes.sent(region))
    return tuple(found)


class _Routes:
    """The routes from one trainer."""

    def __init__(
        self, training: Sequence[ReplicaGroup], work: Workload, snapshot: ClusterSnapshot
    ) -> None:
        self._training = training
        self._snapshot = snapshot
        self._bytes = BYTES_PER_WEIGHT * work.architecture.num_parameters
        self._bytes_per_layer = self._bytes / work.architecture.num_layers

    def sent(self, region: str) -> WeightRoute:
        """Return the route of weights sent to a region, where rollouts stop to load them.

        Into another region than the trainer's, a reader fetches them over the link first, while
        rollouts continue.
        """
        sync = min(
            (
                weight_sync(
                    self._bytes,
                    self._snapshot,
                    trainer_shares=_shares_by_region(group),
                    rollout_region=region,
                )
                for group in self._training
            ),
            key=lambda each: each.total_seconds,
        )
        gib = sync.transferred_bytes / GIB
        return WeightRoute(
            region=region,
            load_seconds=sync.load_seconds,
            transfer_seconds=sync.transfer_seconds,
            transferred_gib=gib,
            egress_dollars_per_gib=sync.egress_dollars / gib if gib else 0.0,
        )

    def gathered(self, region: str, rollouts: Sequence[ReplicaGroup]) -> WeightRoute:
        """Return the route to GPUs that train as well: each stage gathers the layers it serves."""
        stages = [
            stage
            for group in self._training
            for replica in group.replicas
            for stage in stages_of(group, replica)
        ]
        return WeightRoute(
            region=region,
            load_seconds=max(
                reshard_seconds(
                    self._served(group, replica, stages), bytes_per_layer=self._bytes_per_layer
                )
                for group in rollouts
                for replica in group.replicas
            ),
        )

    def _served(
        self, group: ReplicaGroup, replica: Replica, training: Sequence[StagePlace]
    ) -> list[ServedStage]:
        on_machine = _held(training, lambda stage: stage.machine)
        in_region = _held(training, lambda stage: stage.region)
        return [
            ServedStage(
                layers=stage.layers,
                num_gpus=group.parallelism.tensor,
                inside=Source(
                    on_machine.get(stage.machine, frozenset()),
                    inside_machine(self._snapshot.kind(stage.gpu_kind)),
                ),
                outside=self._outside(in_region, stage.region),
            )
            for stage in stages_of(group, replica)
        ]

    def _outside(self, held: Mapping[str, AbstractSet[int]], region: str) -> list[Source]:
        found = [
            Source(layers, between_machines(self._snapshot, source, region))
            for source, layers in sorted(held.items())
        ]
        return sorted(found, key=lambda each: -each.channel.bytes_per_second)


def _held(
    stages: Sequence[StagePlace], where: Callable[[StagePlace], str]
) -> Mapping[str, AbstractSet[int]]:
    """Return the layers that some training stage holds, by place."""
    held: dict[str, set[int]] = defaultdict(set)
    for stage in stages:
        held[where(stage)].update(stage.layers)
    return held


def _shares_by_region(group: ReplicaGroup) -> dict[str, float]:
    """Return the share of the layers that a replica holds in each region."""
    held: dict[str, float] = defaultdict(float)
    for stage in stages_of(group, group.replicas[0]):
        held[stage.region] += len(stage.layers) / sum(group.parallelism.stage_layers)
    return held
