"""Weight routes of a plan to each region's rollouts: sent there, or gathered in place.

The cost model prices transfers; ``weights`` schedules them and shares links.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import WeightTransport
from hetrl_core.plan.plan import Plan, Replica, ReplicaGroup
from hetrl_core.task import Task
from hetrl_core.units import GIB
from hetrl_core.weights.way import FORMER_WAYS, WeightWay, stated_way
from hetrl_planner.cost.compute import BYTES_PER_WEIGHT
from hetrl_planner.cost.network import between_machines, inside_machine
from hetrl_planner.cost.resharding import ServedStage, Source, reshard_seconds
from hetrl_planner.cost.weights import weight_syncs
from hetrl_planner.problem.workload import Workload
from hetrl_planner.simulator.pipeline.pipeline import WeightRoute
from hetrl_planner.simulator.pipeline.placed import PlacedGroup, StagePlace, stages_of


def weight_routes(
    plan: Plan, placed: Sequence[PlacedGroup], work: Workload, snapshot: ClusterSnapshot
) -> tuple[WeightRoute, ...]:
    """Return one route for each region in which something generates.

    Weights take the ways that the plan states, or those that the runtime takes by itself.
    """
    generation = [each for each in placed if Task.ACTOR_GENERATION in each.group.tasks]
    training = [each for each in placed if Task.ACTOR_TRAINING in each.trained_by]
    routes = _Routes(plan, [each.group for each in training], work, snapshot)
    in_turns = {each.shared for each in training if each.shared}
    stated = {each.region for each in plan.weight_paths}
    readers = Counter[str]()
    found = {}
    for region in dict.fromkeys(each.group.region for each in generation):
        here = [each for each in generation if each.group.region == region]
        gathering = [each.group for each in here if each.shared in in_turns]
        if gathering and region not in stated:
            found[region] = routes.gathered(region, gathering)
        else:
            readers[region] = sum(len(each.group.replicas) for each in here)
    return (*found.values(), *routes.sent(readers))


class _Routes:
    """The routes from one trainer."""

    def __init__(
        self,
        plan: Plan,
        training: Sequence[ReplicaGroup],
        work: Workload,
        snapshot: ClusterSnapshot,
    ) -> None:
        self._plan = plan
        self._training = training
        self._work = work
        self._snapshot = snapshot
        self._bytes = BYTES_PER_WEIGHT * work.architecture.num_parameters
        self._bytes_per_layer = self._bytes / work.architecture.num_layers

    def sent(self, readers: Mapping[str, int]) -> Iterator[WeightRoute]:
        """Yield the routes of weights sent to regions, where rollouts stop to load them."""
        source = self._training[0].region
        syncs = weight_syncs(
            self._work,
            self._snapshot,
            trainer_region=source,
            readers=readers,
            stated={region: self._way(region, crosses=region != source) for region in readers},
        )
        for region, sync in syncs.items():
            gib = sync.transferred_bytes / GIB
            yield WeightRoute(
                region=region,
                load_seconds=sync.load_seconds,
                transfer_seconds=sync.transfer_seconds,
                transferred_gib=gib,
                egress_dollars_per_gib=sync.egress_dollars / gib if gib else 0.0,
            )

    def _way(self, region: str, *, crosses: bool) -> WeightWay:
        transport = self._work.weight_transport
        stated = stated_way(self._plan.weight_paths, region, transport=transport, crosses=crosses)
        if stated:
            return stated
        if transport is WeightTransport.NCCL and not crosses:
            return WeightWay.BROADCAST
        return FORMER_WAYS[crosses]

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
