"""Machines that nodes of the local cluster stand for: GPU kind, count, region; and their labels.

Both the real nodes and kwok's fake ones have the labels that NVIDIA's GPU feature discovery and a
cloud provider would set; the operator reads no others.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.errors import ClusterError


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One kind of node."""

    product: str
    """Value of the label nvidia.com/gpu.product."""
    memory_mib: int
    region: str
    zone: str
    gpus: int = 8

    def labels(self) -> dict[str, str]:
        return {
            "nvidia.com/gpu.product": self.product,
            "nvidia.com/gpu.count": str(self.gpus),
            "nvidia.com/gpu.memory": str(self.memory_mib),
            "nvidia.com/gpu.present": "true",
            "topology.kubernetes.io/region": self.region,
            "topology.kubernetes.io/zone": self.zone,
        }


KINDS = {
    "a100": Machine(
        product="NVIDIA-A100-SXM4-80GB", memory_mib=81920, region="us-east", zone="us-east-1a"
    ),
    "l40s": Machine(product="NVIDIA-L40S", memory_mib=46068, region="us-east", zone="us-east-1b"),
    "l4": Machine(product="NVIDIA-L4", memory_mib=23034, region="us-west", zone="us-west-1a"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePool:
    """`count` fake nodes of one kind, named `{name}-0`, `{name}-1`, …"""

    name: str
    machine: Machine
    count: int


def kind(name: str) -> Machine:
    """Return a known kind of machine."""
    try:
        return KINDS[name]
    except KeyError:
        known = ", ".join(KINDS)
        raise ClusterError(f"unknown kind of node {name!r}; known: {known}") from None


def evenly(count: int) -> tuple[NodePool, ...]:
    """Spread `count` nodes over the known kinds."""
    share, rest = divmod(count, len(KINDS))
    pools = (
        NodePool(name=f"fake-{name}", machine=machine, count=share + (index < rest))
        for index, (name, machine) in enumerate(KINDS.items())
    )
    return tuple(pool for pool in pools if pool.count)


def pools_from_file(path: Path) -> tuple[NodePool, ...]:
    """Read pools from YAML: a list of `{name, count, product, memory_mib, gpus, region, zone}`."""
    entries = yaml.safe_load(path.read_text())
    return tuple(_pool(path, index, entry) for index, entry in enumerate(entries))


def _pool(path: Path, index: int, entry: dict[str, Any]) -> NodePool:
    machine = {key: value for key, value in entry.items() if key not in {"name", "count"}}
    try:
        return NodePool(name=entry["name"], count=entry["count"], machine=Machine(**machine))
    except (KeyError, TypeError) as error:
        raise ClusterError(f"{path}: pool {index}: {error}") from error
