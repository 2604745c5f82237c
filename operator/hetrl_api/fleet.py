"""From Nodes and HetRLTopology objects to the machines that a job may use.

What a topology says of a GPU kind goes over the catalogue's figures. Reading nodes from a
cluster is left to the callers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hetrl_api.gpu_kinds import KnownKinds, catalogue_name, plain
from hetrl_api.topology import HetRLTopology, MachinePool
from hetrl_core.catalogue import NotEligible
from hetrl_core.cluster import ClusterSnapshot, GpuKind, Link, Machine
from hetrl_core.job import PoolSpec, ResourcesSpec
from hetrl_core.units import GIGA

GPU_RESOURCE = "nvidia.com/gpu"
PRODUCT_LABEL = "nvidia.com/gpu.product"
REGION_LABEL = "topology.kubernetes.io/region"
ZONE_LABEL = "topology.kubernetes.io/zone"

BITS_PER_BYTE = 8
SECONDS_PER_MILLISECOND = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A machine, and the labels by which a job may choose it."""

    machine: Machine
    labels: Mapping[str, str]

    def is_in(self, pool: PoolSpec) -> bool:
        """Tell whether a job's pool takes this machine."""
        return self._has_product(pool.gpu_product) and all(
            self.labels.get(key) == value for key, value in pool.node_selector
        )

    def _has_product(self, asked: str) -> bool:
        own = {plain(self.machine.gpu_kind), plain(self.labels.get(PRODUCT_LABEL, ""))}
        return not asked or plain(asked) in own or catalogue_name(asked) == self.machine.gpu_kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Every machine with GPUs of a known kind, before any job's limits."""

    gpu_kinds: tuple[GpuKind, ...]
    places: tuple[Place, ...]
    links: tuple[Link, ...] = ()
    left_out: tuple[str, ...] = ()
    """Why machines that have GPUs are not among the places, one line for each product."""

    def snapshot(self, resources: ResourcesSpec) -> ClusterSnapshot:
        """Return what a job may use; a machine in two of its pools counts for the first."""
        machines = tuple(
            machine
            for place in self.places
            if (machine := _in_pools(place, resources.pools)) is not None
        )
        return ClusterSnapshot(gpu_kinds=self.gpu_kinds, machines=machines, links=self.links)


def fleet_of(
    nodes: Iterable[Mapping[str, Any]], *, topologies: Sequence[HetRLTopology] = ()
) -> Fleet:
    """Return the fleet of v1 Node objects and of the pools that topologies list.

    Nodes that are cordoned, not ready or without GPUs are left out.

    Raises:
        InvalidObjectError: a topology names a kind that neither it nor the catalogue has, or
            says too little about one.
    """
    known = KnownKinds(topologies)
    places: list[Place] = []
    left_out: set[str] = set()
    for node in nodes:
        if not _is_usable(node):
            continue
        kind = known.of_product(_labels(node).get(PRODUCT_LABEL, ""))
        if isinstance(kind, NotEligible):
            left_out.add(kind.reason)
        else:
            places.append(_place_of_node(node, kind))
    for topology in topologies:
        for number, pool in enumerate(topology.spec.pools):
            places += _places_of_pool(pool, known.named(pool.gpu_kind, number=number))
    return Fleet(
        gpu_kinds=known.used(),
        places=tuple(sorted(places, key=lambda place: place.machine.name)),
        links=tuple(link for topology in topologies for link in _links(topology)),
        left_out=tuple(sorted(left_out)),
    )


def _in_pools(place: Place, pools: tuple[PoolSpec, ...]) -> Machine | None:
    if not pools:
        return place.machine
    for pool in pools:
        if place.is_in(pool):
            return replace(place.machine, pool=pool.name)
    return None


def _labels(node: Mapping[str, Any]) -> dict[str, str]:
    return dict(node.get("metadata", {}).get("labels") or {})


def _num_gpus(node: Mapping[str, Any]) -> int:
    allocatable = node.get("status", {}).get("allocatable") or {}
    return int(allocatable.get(GPU_RESOURCE, 0))


def _is_usable(node: Mapping[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions") or ()
    is_ready = all(each["status"] == "True" for each in conditions if each["type"] == "Ready")
    is_cordoned = bool(node.get("spec", {}).get("unschedulable"))
    return is_ready and not is_cordoned and _num_gpus(node) > 0


def _place_of_node(node: Mapping[str, Any], kind: GpuKind) -> Place:
    labels = _labels(node)
    return Place(
        machine=Machine(
            name=str(node["metadata"]["name"]),
            gpu_kind=kind.name,
            num_gpus=_num_gpus(node),
            region=labels.get(REGION_LABEL, "local"),
            zone=labels.get(ZONE_LABEL, ""),
        ),
        labels=labels,
    )


def _places_of_pool(pool: MachinePool, kind: GpuKind) -> list[Place]:
    labels = {PRODUCT_LABEL: kind.name, REGION_LABEL: pool.region, **pool.labels}
    digits = max(3, len(str(pool.machines - 1)))
    return [
        Place(
            machine=Machine(
                name=f"{pool.name}-{number:0{digits}}",
                gpu_kind=kind.name,
                num_gpus=pool.gpus_per_machine,
                region=pool.region,
                zone=labels.get(ZONE_LABEL, ""),
            ),
            labels=labels,
        )
        for number in range(pool.machines)
    ]


def _links(topology: HetRLTopology) -> Iterable[Link]:
    for region in topology.spec.regions:
        yield Link(
            source=region.name,
            target=region.name,
            bytes_per_second=region.bandwidth_gbps * GIGA / BITS_PER_BYTE,
            latency_seconds=region.latency_milliseconds * SECONDS_PER_MILLISECOND,
        )
    for link in topology.spec.links:
        yield Link(
            source=link.source,
            target=link.target,
            bytes_per_second=link.bandwidth_gbps * GIGA / BITS_PER_BYTE,
            latency_seconds=link.latency_milliseconds * SECONDS_PER_MILLISECOND,
            egress_dollars_per_gib=link.egress_dollars_per_gib,
        )
