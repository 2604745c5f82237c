"""How new weights reach the rollouts of a layout, how long that takes and what it costs.

Rollouts on GPUs of their own fetch them from the trainer's region, one reader a region;
rollouts that share GPUs with the trainer gather the shards that they lack (resharding).
"""

from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property

from hetrl_core.task import Task
from hetrl_planner.cost.compute import BYTES_PER_WEIGHT
from hetrl_planner.cost.network import WeightSync, transfer_seconds, weight_sync
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.layout import Layout, ReplicaLayout
from hetrl_planner.workload import Workload


class WeightPaths:
    """The ways of one layout's weights."""

    def __init__(self, layout: Layout, work: Workload, devices: Devices) -> None:
        self._devices = devices
        self._training = layout.task(Task.ACTOR_TRAINING).replicas
        self._generation = layout.task(Task.ACTOR_GENERATION).replicas
        self._bytes = BYTES_PER_WEIGHT * work.architecture.num_parameters
        self._layers = work.architecture.num_layers
        self._shares_gpus = layout.group_of(Task.ACTOR_TRAINING) == layout.group_of(
            Task.ACTOR_GENERATION
        )
        self._fetched: dict[str, WeightSync] = {}

    @cached_property
    def syncs(self) -> tuple[WeightSync, ...]:
        """What each generating replica waits for at a new version."""
        if self._shares_gpus:
            return tuple(
                WeightSync(transfer_seconds=0.0, load_seconds=self._reshard_seconds(replica))
                for replica in self._generation
            )
        return tuple(
            max(
                (self._fetch(region) for region in self._regions(replica)),
                key=lambda each: each.total_seconds,
            )
            for replica in self._generation
        )

    @cached_property
    def egress_dollars(self) -> float:
        """Price of one version's bytes into other regions, one copy a region."""
        targets = {region for replica in self._generation for region in self._regions(replica)}
        return sum(self._fetch(region).egress_dollars for region in sorted(targets))

    @cached_property
    def _sources(self) -> tuple[str, ...]:
        """The regions of the trainer's first replica, the largest part first."""
        layers: dict[str, int] = {}
        for stage in self._training[0]:
            region = self._region(stage.gpus[0])
            layers[region] = layers.get(region, 0) + stage.num_layers
        return tuple(sorted(layers, key=lambda region: (-layers[region], region)))

    def _fetch(self, region: str) -> WeightSync:
        """Return the way from the training replica that is nearest."""
        if region not in self._fetched:
            self._fetched[region] = min(
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
        return self._fetched[region]

    @cached_property
    def _shares(self) -> tuple[tuple[tuple[str, float], ...], ...]:
        """What each training replica holds in which regions, each way to hold it once."""
        found: dict[tuple[tuple[str, float], ...], None] = {}
        for replica in self._training:
            layers: dict[str, int] = {}
            for stage in replica:
                region = self._region(stage.gpus[0])
                layers[region] = layers.get(region, 0) + stage.num_layers
            found[tuple((region, each / self._layers) for region, each in layers.items())] = None
        return tuple(found)

    def _reshard_seconds(self, replica: ReplicaLayout) -> float:
        """Return the time in which each machine of a replica gathers the layers that it serves.

        Those that some training stage holds there come from inside the machine, the others over
        the network.
        """
        longest, first = 0.0, 0
        for stage in replica:
            machine = self._machine(stage.gpus[0])
            served = range(first, first + stage.num_layers)
            first += stage.num_layers
            here = len(self._held[machine].intersection(served))
            longest = max(
                longest,
                self._inside_seconds(machine, here, num_gpus=len(stage.gpus))
                + self._outside_seconds(machine, stage.num_layers - here),
            )
        return longest

    def _inside_seconds(self, machine: int, num_layers: int, *, num_gpus: int) -> float:
        if not num_layers:
            return 0.0
        size_bytes = self._bytes * num_layers / self._layers / num_gpus
        return transfer_seconds(size_bytes, self._devices.wire(machine, machine))

    def _outside_seconds(self, machine: int, num_layers: int) -> float:
        if not num_layers:
            return 0.0
        wire = self._devices.between(self._sources[0], self._devices.region(machine))
        return transfer_seconds(self._bytes * num_layers / self._layers, wire)

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
