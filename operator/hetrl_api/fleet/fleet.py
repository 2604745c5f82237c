"""From Nodes and HetRLTopology objects to the machines that a job may use.

What a topology says of a GPU kind goes over the catalogue's figures. Reading nodes from a
cluster is left to the callers.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hetrl_api.conversion import to_core
from hetrl_api.fleet.departure import departure
from hetrl_api.fleet.gpu_kinds import KnownKinds, catalogue_name
from hetrl_api.fleet.place import PRODUCT_LABEL, Absence, Place, summary
from hetrl_api.fleet.topology import HetRLTopology, MachinePool
from hetrl_core.fleet.products import NotEligible
from hetrl_core.fleet.snapshot import ClusterSnapshot, GpuKind, Link, Machine
from hetrl_core.job.spec import PoolSpec, ResourcesSpec
from hetrl_core.units import GIGA

GPU_RESOURCE = "nvidia.com/gpu"
REGION_LABEL = "topology.kubernetes.io/region"
ZONE_LABEL = "topology.kubernetes.io/zone"

BITS_PER_BYTE = 8
SECONDS_PER_MILLISECOND = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Every machine with GPUs of a known kind, before any job's limits."""

    gpu_kinds: tuple[GpuKind, ...]
    places: tuple[Place, ...]
    links: tuple[Link, ...] = ()
    absences: tuple[Absence, ...] = ()
    """Nodes for GPU work that are not among the places."""

    def snapshot(self, resources: ResourcesSpec) -> ClusterSnapshot:
        """Return what a job may use; a machine in two of its pools counts for the first."""
        machines = tuple(
            machine
            for place in self.places
            if (machine := _in_pools(place, resources.pools)) is not None
        )
        return ClusterSnapshot(gpu_kinds=self.gpu_kinds, machines=machines, links=self.links)

    def closed(self, resources: ResourcesSpec, names: Container[str]) -> tuple[Absence, ...]:
        """Return of some machines those that take no new pods, as a job's pools name them."""
        found = []
        for each in self.absences:
            if each.node in names and each.machine and each.kind:
                pools = [pool.name for pool in resources.pools if each.is_in(pool)]
                if pools or not resources.pools:
                    machine = replace(each.machine, pool=pools[0] if pools else "")
                    found.append(replace(each, machine=machine))
        return tuple(found)

    def warnings(self, resources: ResourcesSpec) -> tuple[str, ...]:
        """Return what speaks against GPU kinds that a job may use, although they work."""
        used = self.snapshot(resources).without_unused().gpu_kinds
        return tuple(kind.warning for kind in used if kind.warning)

    def left_out(self, resources: ResourcesSpec) -> tuple[str, ...]:
        """Return why nodes that a job would take are not in its snapshot, a line a reason."""
        pools = resources.pools
        return summary(
            each for each in self.absences if not pools or any(each.is_in(pool) for pool in pools)
        )


def fleet_of(
    nodes: Iterable[Mapping[str, Any]],
    *,
    topologies: Sequence[HetRLTopology] = (),
    bar: Callable[[Mapping[str, Any]], str] = lambda _node: "",
) -> Fleet:
    """Return the fleet of v1 Node objects and of the pools that topologies list.

    Nodes without GPUs are ignored. Nodes with GPUs that are cordoned, not ready, about to be
    removed, of an unknown kind or of one that this release cannot compute on are left out, with a
    reason.

    Args:
        nodes: as the API server gives them.
        topologies: prices, links, further kinds, and machines of their own.
        bar: a caller's own rule: why a node is left out, empty when it is not.

    Raises:
        InvalidObjectError: a topology names a kind that neither it nor the catalogue has, or
            says too little about one.
    """
    known = KnownKinds(topologies)
    places: list[Place] = []
    absences: list[Absence] = []
    for node in nodes:
        if not _is_for_gpus(node):
            continue
        found = _place_of_node(node, known, why_not=_trouble(node) or bar(node))
        if isinstance(found, Place):
            places.append(found)
        else:
            absences.append(found)
    for topology in topologies:
        for number, pool in enumerate(topology.spec.pools):
            kind = known.named(pool.gpu_kind, number=number)
            found_here = _places_of_pool(pool, kind)
            if kind.obstacle:
                absences += [_unusable(place, kind) for place in found_here]
            else:
                places += found_here
    return Fleet(
        gpu_kinds=known.used(),
        places=tuple(sorted(places, key=lambda place: place.machine.name)),
        links=tuple(link for topology in topologies for link in _links(topology)),
        absences=tuple(sorted(absences, key=lambda absence: absence.node)),
    )


def gpus_by_kind(nodes: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Count the GPUs of nodes by kind, those left out included; unknown kinds by their product."""
    found: Counter[str] = Counter()
    for node in nodes:
        product = _labels(node).get(PRODUCT_LABEL, "")
        if product:
            kind = catalogue_name(product)
            found[product if isinstance(kind, NotEligible) else kind] += _num_gpus(node)
    return dict(found)


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


def _is_for_gpus(node: Mapping[str, Any]) -> bool:
    return _num_gpus(node) > 0 or PRODUCT_LABEL in _labels(node)


def _trouble(node: Mapping[str, Any]) -> str:
    """Return why no pod with GPUs can start on a node; empty when one can."""
    conditions = node.get("status", {}).get("conditions") or ()
    if why := departure(node):
        return why
    if any(each["type"] == "Ready" and each["status"] != "True" for each in conditions):
        return "not ready"
    if node.get("spec", {}).get("unschedulable"):
        return "cordoned"
    return "" if _num_gpus(node) else f"its label names a GPU, but it has no {GPU_RESOURCE}"


def _place_of_node(node: Mapping[str, Any], known: KnownKinds, *, why_not: str) -> Place | Absence:
    name, labels = str(node["metadata"]["name"]), _labels(node)
    product = labels.get(PRODUCT_LABEL, "")
    if why_not:
        kind_name = known.name_of(product)
        if isinstance(kind_name, NotEligible):
            return Absence(node=name, gpu_kind="", labels=labels, reason=why_not)
        return Absence(
            node=name,
            gpu_kind=kind_name,
            labels=labels,
            reason=why_not,
            machine=_machine(node, kind_name) if _num_gpus(node) else None,
            kind=known.figures(kind_name),
        )
    kind = known.of_product(product)
    if isinstance(kind, NotEligible):
        return Absence(node=name, gpu_kind="", labels=labels, reason=kind.reason)
    place = Place(machine=_machine(node, kind.name), labels=labels)
    return _unusable(place, kind) if kind.obstacle else place


def _unusable(place: Place, kind: GpuKind) -> Absence:
    return Absence(
        node=place.machine.name,
        gpu_kind=kind.name,
        labels=place.labels,
        reason=kind.obstacle,
        machine=place.machine,
        kind=kind,
    )


def _machine(node: Mapping[str, Any], gpu_kind: str) -> Machine:
    labels = _labels(node)
    return Machine(
        name=str(node["metadata"]["name"]),
        gpu_kind=gpu_kind,
        num_gpus=_num_gpus(node),
        region=labels.get(REGION_LABEL, "local"),
        zone=labels.get(ZONE_LABEL, ""),
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
        yield to_core(
            Link,
            link,
            bytes_per_second=link.bandwidth_gbps * GIGA / BITS_PER_BYTE,
            latency_seconds=link.latency_milliseconds * SECONDS_PER_MILLISECOND,
        )
