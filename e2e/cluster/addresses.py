"""Gives every running cluster ports and addresses that no other one on this machine has.

A cluster holds a numbered slot while its state folder exists; all numbers follow from the slot.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection
from dataclasses import dataclass

from e2e.cluster.errors import ClusterError

# RFC 2544 sets this range aside for tests, so it hides no office or home network.
TEST_NETWORK = ipaddress.ip_network("198.18.0.0/15")
SLOTS = 32
NODES_MAX = 7
# Below 32768, where Linux begins to hand out ports to outgoing connections.
FIRST_PORT = 21000
PORTS_PER_SLOT = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """The addresses of one cluster."""

    number: int

    @property
    def _ports(self) -> range:
        first = FIRST_PORT + self.number * PORTS_PER_SLOT
        return range(first, first + PORTS_PER_SLOT)

    @property
    def api_server_port(self) -> int:
        return self._ports[0]

    @property
    def etcd_client_port(self) -> int:
        return self._ports[1]

    @property
    def etcd_peer_port(self) -> int:
        return self._ports[2]

    @property
    def controller_manager_port(self) -> int:
        return self._ports[3]

    @property
    def scheduler_port(self) -> int:
        return self._ports[4]

    @property
    def kwok_port(self) -> int:
        return self._ports[5]

    @property
    def bridge(self) -> str:
        """Name of the bridge that joins this machine and the cluster's nodes."""
        return f"hetrl{self.number}"

    @property
    def node_network(self) -> ipaddress.IPv4Network:
        return self._subnet(0)

    @property
    def host_ip(self) -> str:
        """Address of this machine on the bridge: API server and cluster DNS."""
        return str(self.node_network[1])

    def node_ip(self, index: int) -> str:
        return str(self.node_network[11 + index])

    def pod_network(self, index: int) -> ipaddress.IPv4Network:
        """Return the pod subnet of the node `index`, from 0."""
        return self._subnet(1 + index)

    @property
    def service_network(self) -> ipaddress.IPv4Network:
        upper_half = int(self._base.network_address) + self._base.num_addresses // 2
        return ipaddress.IPv4Network((upper_half, 21))

    @property
    def kubernetes_service_ip(self) -> str:
        return str(self.service_network[1])

    def is_free(self) -> bool:
        """Tell whether nothing listens on the slot's ports."""
        return all(_is_free(port) for port in self._ports)

    @property
    def _base(self) -> ipaddress.IPv4Network:
        size = TEST_NETWORK.num_addresses // SLOTS
        start = int(TEST_NETWORK.network_address) + self.number * size
        return ipaddress.IPv4Network((start, 20))

    def _subnet(self, index: int) -> ipaddress.IPv4Network:
        assert index <= NODES_MAX
        return ipaddress.IPv4Network((int(self._base.network_address) + 256 * index, 24))


def free_slot(taken: Collection[int]) -> Slot:
    """Return a slot whose number is not taken and whose ports are free."""
    for number in range(SLOTS):
        slot = Slot(number=number)
        if number not in taken and slot.is_free():
            return slot
    raise ClusterError(f"all {SLOTS} cluster slots are taken: end one with `e2e.cluster down`")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # An API server of an earlier cluster that still closes its connections is not in the way.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
