"""The address that a worker serves others on, and its name for them.

Pods of a job have their names in one domain, the coordinator's. On one machine's loopback all
processes share an address, so the port that a contract names may be another's.
"""

import socket

from hetrl_core.launch import Address, Launch
from hetrl_runtime.transport.channel import is_loopback


def listening_address(launch: Launch, *, port: int) -> Address:
    """Return where to listen: at the contract's ``port`` in a pod, at any free one otherwise."""
    is_alone = not is_loopback(launch.coordinator.host)
    return Address(host=launch.listen_host, port=port if is_alone else 0)


def own_address(launch: Launch, *, port: int) -> Address:
    """Return the address that others dial to reach ``port`` here."""
    coordinator = launch.coordinator.host
    if is_loopback(coordinator):
        return Address(host=coordinator, port=port)
    return Address(host=f"{socket.gethostname()}.{coordinator.partition('.')[2]}", port=port)
