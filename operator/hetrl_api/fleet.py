"""From Nodes and HetRLTopology objects to the machines that a job may use.

What a topology says of a GPU kind goes over the catalogue's figures. Reading nodes from a
cluster is left to the callers.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hetrl_api.errors import InvalidObjectError
from hetrl_api.topology import GpuKindEntry, HetRLTopology, MachinePool
from hetrl_core.catalogue import NotEligible, catalogued, kind_of_product
from hetrl_core.cluster import ClusterSnapshot, GpuKind, Link, Machine
from hetrl_core.job import PoolSpec, ResourcesSpec
from hetrl_core.units import GIB, GIGA, TERA

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
        own = {_plain(self.machine.gpu_kind), _plain(self.labels.get(PRODUCT_LABEL, ""))}
        return not asked or _plain(asked) in own or _catalogue_name(asked) == self.machine.gpu_kind


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
    known = _Kinds(topologies)
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


class _Kinds:
    """GPU kinds as the topologies and the catalogue together know them."""

    def __init__(self, topologies: Sequence[HetRLTopology]) -> None:
        self._entries = {
            entry.name: entry for topology in topologies for entry in topology.spec.gpu_kinds
        }
        self._by_product = {
            _plain(product): entry.name
            for entry in self._entries.values()
            for product in (*entry.products, entry.name)
        }
        self._used: dict[str, GpuKind] = {}

    def of_product(self, product: str) -> GpuKind | NotEligible:
        """Return the kind behind a node's product label, or why there is none."""
        name = self._by_product.get(_plain(product)) or _catalogue_name(product)
        if isinstance(name, NotEligible):
            return name
        self._used[name] = self._merged(name)
        return self._used[name]

    def named(self, name: str, *, number: int) -> GpuKind:
        """Return the kind that a pool names."""
        kind = self.of_product(name)
        if isinstance(kind, NotEligible):
            raise InvalidObjectError([f"spec.pools[{number}].gpuKind: {kind.reason}"])
        return kind

    def used(self) -> tuple[GpuKind, ...]:
        """Return the kinds that some machine has, by name."""
        return tuple(kind for _, kind in sorted(self._used.items()))

    def _merged(self, name: str) -> GpuKind:
        entry = self._entries.get(name)
        figures = _figures(entry) if entry else {}
        given = {key: value for key, value in figures.items() if value is not None}
        base = catalogued(name)
        if base is not None:
            return replace(base, **given)
        missing = [field for key, field in _REQUIRED.items() if key not in given]
        if missing:
            raise InvalidObjectError(
                [
                    f"spec.gpuKinds: {name!r} is not in the catalogue, so it also needs "
                    + ", ".join(missing)
                ]
            )
        return GpuKind(name=name, **given)


def _catalogue_name(product: str) -> str | NotEligible:
    kind = catalogued(product) or kind_of_product(product)
    return kind if isinstance(kind, NotEligible) else kind.name


_REQUIRED = {
    "memory_bytes": "memoryGiB",
    "bf16_flops": "peakTeraflops.bf16",
    "hbm_bytes_per_second": "hbmGigabytesPerSecond",
    "intra_node_bytes_per_second": "intraNodeGigabytesPerSecond",
    "dollars_per_hour": "dollarsPerHour",
}


def _figures(entry: GpuKindEntry) -> dict[str, Any]:
    memory = entry.memory_gib
    return {
        "memory_bytes": None if memory is None else int(memory * GIB),
        "bf16_flops": _times(entry.peak_teraflops.bf16, TERA),
        "hbm_bytes_per_second": _times(entry.hbm_gigabytes_per_second, GIGA),
        "intra_node_bytes_per_second": _times(entry.intra_node_gigabytes_per_second, GIGA),
        "dollars_per_hour": entry.dollars_per_hour,
        "compute_efficiency": entry.compute_efficiency,
        "memory_efficiency": entry.memory_efficiency,
    }


def _times(value: float | None, unit: float) -> float | None:
    return None if value is None else value * unit


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


def _plain(product: str) -> str:
    """Make labels of older and newer drivers comparable: both call it ``a100-sxm4-40gb``."""
    return re.sub(r"^nvidia-", "", product.lower().replace(" ", "-"))
