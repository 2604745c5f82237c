"""The machines that a job's pods may run on: nodes that they tolerate, less other jobs' GPUs.

Fleets are computed once per change, not once per job. ``informer_cache`` holds the nodes, and
``reservations`` the GPUs of jobs.
"""

import logging
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from hetrl_api.fleet.fleet import Fleet, fleet_of
from hetrl_api.fleet.place import Absence
from hetrl_api.fleet.topology import HetRLTopology
from hetrl_api.job.runtime import Toleration
from hetrl_api.validation.errors import InvalidObjectError
from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import ResourcesSpec
from hetrl_operator.model.nodes import untolerated
from hetrl_operator.model.observed import ParsedSpec
from hetrl_operator.model.parse import Body
from hetrl_operator.planning.fleet_digest import fleet_digest
from hetrl_operator.planning.reservations import Reservations, without

log = logging.getLogger(__name__)

_MOST_REMEMBERED = 64
"""Limit of cached snapshots, of hundreds of machines each; similar jobs share one."""

_Tolerations = tuple[Toleration, ...]
_Requirements = tuple[_Tolerations, ResourcesSpec]


class FleetView(Protocol):
    """The part of the cluster that planning reads; ``InformerCache`` implements it."""

    def nodes(self) -> Iterable[Body]:
        """Return slim Nodes."""

    def topologies(self) -> Iterable[HetRLTopology]:
        """Return every readable HetRLTopology."""

    def fleet_version(self) -> int:
        """Return a number that changes with the nodes or the topologies."""

    def fleet_changed_at(self) -> datetime:
        """Return when it last changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """The fleet for one set of tolerations."""

    fleet: Fleet
    capacity: Mapping[str, int]


@dataclass(slots=True)
class FleetCapacity:
    """The fleets that jobs may use, cached until nodes or reservations change."""

    view: FleetView
    reservations: Reservations
    _fleets: dict[_Tolerations, _Known] = field(default_factory=dict)
    _whole: dict[_Requirements, ClusterSnapshot] = field(default_factory=dict)
    _free: dict[_Requirements, ClusterSnapshot] = field(default_factory=dict)
    _digests: dict[_Requirements, str] = field(default_factory=dict)
    _fleet_version: int = -1
    _reservations_version: int = -1

    def left_out(self, parsed: ParsedSpec) -> tuple[str, ...]:
        """Return why nodes are left out of a job's fleet, a line per reason."""
        return self._known(parsed).fleet.left_out(parsed.spec.resources)

    def closed(self, parsed: ParsedSpec, machines: Container[str]) -> tuple[Absence, ...]:
        """Return the machines among these that take no new pods of a job."""
        return self._known(parsed).fleet.closed(parsed.spec.resources, machines)

    def capacity(self, parsed: ParsedSpec) -> Mapping[str, int]:
        """Return the number of GPUs of each machine, held or free."""
        return self._known(parsed).capacity

    def whole(self, parsed: ParsedSpec) -> ClusterSnapshot:
        """Return the fleet that a job might use if no other job held GPUs."""
        fleet, requirements = self._known(parsed).fleet, _requirements(parsed)
        if requirements not in self._whole:
            _evict_oldest(self._whole)
            self._whole[requirements] = fleet.snapshot(parsed.spec.resources)
        return self._whole[requirements]

    def digest(self, parsed: ParsedSpec) -> str:
        """Digest the machines, prices and links that a job may use, held or free."""
        whole, requirements = self.whole(parsed), _requirements(parsed)
        if requirements not in self._digests:
            _evict_oldest(self._digests)
            self._digests[requirements] = fleet_digest(whole)
        return self._digests[requirements]

    def free(self, uid: str, parsed: ParsedSpec) -> ClusterSnapshot:
        """Return the fleet without the GPUs that other jobs hold."""
        whole, requirements = self.whole(parsed), _requirements(parsed)
        if self.reservations.holds(uid):
            return without(whole, self.reservations.held_by_others(uid))
        if self._reservations_version != self.reservations.version:
            self._free.clear()
            self._reservations_version = self.reservations.version
        if requirements not in self._free:
            _evict_oldest(self._free)
            self._free[requirements] = without(whole, self.reservations.held_by_others(uid))
        return self._free[requirements]

    def _known(self, parsed: ParsedSpec) -> _Known:
        version = self.view.fleet_version()
        if self._fleet_version != version:
            for each in (self._fleets, self._whole, self._free, self._digests):
                each.clear()
            self._fleet_version = version
        tolerations = parsed.written.runtime.pod_template.tolerations
        if tolerations not in self._fleets:
            fleet = fleet_of(
                self.view.nodes(),
                topologies=_usable(self.view.topologies()),
                bar=lambda node: untolerated(node, tolerations),
            )
            capacity = {each.machine.name: each.machine.num_gpus for each in fleet.places}
            self._fleets[tolerations] = _Known(fleet=fleet, capacity=capacity)
        return self._fleets[tolerations]


def _requirements(parsed: ParsedSpec) -> _Requirements:
    return parsed.written.runtime.pod_template.tolerations, parsed.spec.resources


def _evict_oldest(remembered: dict[_Requirements, Any]) -> None:
    if len(remembered) >= _MOST_REMEMBERED:
        del remembered[next(iter(remembered))]


def _usable(topologies: Iterable[HetRLTopology]) -> list[HetRLTopology]:
    """Return the topologies without their pools, leaving out those that contradict themselves.

    Pools are for planning without a cluster; here the nodes count. One bad topology must
    not keep every job from being planned.
    """
    usable = []
    for each in topologies:
        without_pools = each.spec.model_copy(update={"pools": ()})
        topology = each.model_copy(update={"spec": without_pools})
        try:
            fleet_of((), topologies=[topology])
        except InvalidObjectError as error:
            log.warning("topology left out: name=%s reason=%s", each.metadata.name, error)
        else:
            usable.append(topology)
    return usable
