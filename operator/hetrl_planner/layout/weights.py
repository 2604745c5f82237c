"""Paths of new weights to the rollouts of a layout: their times and prices.

Rollouts on GPUs of their own fetch them from the trainer's region, one reader a region;
rollouts that share GPUs with the trainer gather the shards that they lack (resharding).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property

from hetrl_core.task import Task
from hetrl_planner.cost.compute import BYTES_PER_WEIGHT
from hetrl_planner.cost.network import WeightSync, weight_sync
from hetrl_planner.cost.resharding import ServedStage, Source, reshard_seconds
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.layout import Layout, ReplicaLayout
from hetrl_planner.problem.workload import Workload


class WeightPaths:
    """The paths of one layout's weights."""

    def __init__(self, layout: Layout, work: Workload, devices: Devices) -> None:
        self._devices = devices
        self._training = layout.task(Task.ACTOR_TRAINING).replicas
        self._generation = layout.task(Task.ACTOR_GENERATION).replicas
        self._bytes = BYTES_PER_WEIGHT * work.architecture.num_parameters
        self._layers = work.architecture.num_layers
        self._shares_gpus = layout.group_of(Task.ACTOR_TRAINING) == layout.group_of(
            Task.ACTOR_GENERATION
        )

    @cached_property
    def syncs(self) -> tuple[WeightSync, ...]:
        """The wait of each generating replica for a new version."""
        if self._shares_gpus:
            return tuple(
                WeightSync(transfer_seconds=0.0, load_seconds=self._reshard_seconds(replica))
                for replica in self._generation
            )
        return tuple(
            max(
                (self._fetches[region] for region in self._regions(replica)),
                key=lambda each: each.total_seconds,
            )
            for replica in self._generation
        )

    @cached_property
    def egress_dollars(self) -> float:
        """Price of one version's bytes into other regions, one copy a region."""
        return sum(fetch.egress_dollars for fetch in self._fetches.values())

    @cached_property
    def _fetches(self) -> Mapping[str, WeightSync]:
        """The way to each region of rollouts from the training replica that is nearest."""
        return {
            region: min(
                (
                    weight_sync(
                        self._bytes,
                        self._devices.snapshot,
                        trainer_shares=dict(shares),
                        rollout_region=region,
                    )
                    for shares in self._shares
                ),
                key=lambda each: each.total_seconds,
            )
            for region in self._targets
        }

    @cached_property
    def _targets(self) -> list[str]:
        """Regions of rollouts."""
        return sorted({region for each in self._generation for region in self._regions(each)})

    @cached_property
    def _shares(self) -> tuple[tuple[tuple[str, float], ...], ...]:
        """Shares that training replicas hold in each region, without duplicates."""
        found: dict[tuple[tuple[str, float], ...], None] = {}
        for replica in self._training:
            layers: dict[str, int] = {}
            for stage in replica:
                region = self._region(stage.gpus[0])
                layers[region] = layers.get(region, 0) + stage.num_layers
            found[tuple((region, each / self._layers) for region, each in layers.items())] = None
        return tuple(found)

    def _reshard_seconds(self, replica: ReplicaLayout) -> float:
        bytes_per_layer = self._bytes / self._layers
        return reshard_seconds(self._served(replica), bytes_per_layer=bytes_per_layer)

    def _served(self, replica: ReplicaLayout) -> Iterator[ServedStage]:
        first = 0
        for stage in replica:
            machine = self._machine(stage.gpus[0])
            yield ServedStage(
                layers=range(first, first + stage.num_layers),
                num_gpus=len(stage.gpus),
                inside=Source(self._held[machine], self._devices.wire(machine, machine)),
                outside=self._sources[self._devices.region(machine)],
            )
            first += stage.num_layers

    @cached_property
    def _sources(self) -> Mapping[str, Sequence[Source]]:
        """The regions that hold layers, as seen from each region of rollouts, nearest first."""
        return {
            target: sorted(
                (
                    Source(layers, self._devices.between(source, target))
                    for source, layers in self._held_in.items()
                ),
                key=lambda each: -each.channel.bytes_per_second,
            )
            for target in self._targets
        }

    @cached_property
    def _held_in(self) -> Mapping[str, AbstractSet[int]]:
        """The layers that training holds in each region."""
        held: dict[str, set[int]] = {}
        for machine, layers in sorted(self._held.items()):
            held.setdefault(self._devices.region(machine), set()).update(layers)
        return held

    @cached_property
    def _held(self) -> Mapping[int, set[int]]:
        """The layers that training holds on each machine."""
        held: dict[int, set[int]] = defaultdict(set)
        for replica in self._training:
            first = 0
            for stage in replica:
                layers = range(first, first + stage.num_layers)
                held[self._machine(stage.gpus[0])].update(layers)
                first += stage.num_layers
        return held

    def _regions(self, replica: ReplicaLayout) -> set[str]:
        return {self._region(stage.gpus[0]) for stage in replica}

    def _machine(self, gpu: int) -> int:
        return self._devices.gpu_machines[gpu]

    def _region(self, gpu: int) -> str:
        return self._devices.region(self._machine(gpu))
