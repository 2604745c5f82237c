"""Digests of fleets, as they are stored on HetRLPlans.

The texts below are fixed. Plans in clusters carry their digests, and a job whose stored digest
differs from the computed one searches for another plan. So a text names its fields itself and
never follows the name or the fields of a class: a renamed class or a new field changes no digest.
"""

from collections.abc import Iterable
from hashlib import sha256

from hetrl_core.fleet.snapshot import ClusterSnapshot, GpuKind, Link, Machine

_GPU_KIND = (
    "GpuKind(name={0.name!r}, memory_bytes={0.memory_bytes!r}, bf16_flops={0.bf16_flops!r}, "
    "hbm_bytes_per_second={0.hbm_bytes_per_second!r}, "
    "intra_node_bytes_per_second={0.intra_node_bytes_per_second!r}, "
    "dollars_per_hour={0.dollars_per_hour!r}, compute_efficiency={0.compute_efficiency!r}, "
    "memory_efficiency={0.memory_efficiency!r})"
)
_UNNAMED_MACHINE = (
    "gpu_kind={0.gpu_kind!r}, num_gpus={0.num_gpus!r}, "
    "region={0.region!r}, zone={0.zone!r}, pool={0.pool!r})"
)
_MACHINE = f"Machine(name={{0.name!r}}, {_UNNAMED_MACHINE}"
_LINK = (
    "Link(source={0.source!r}, target={0.target!r}, bytes_per_second={0.bytes_per_second!r}, "
    "latency_seconds={0.latency_seconds!r}, "
    "egress_dollars_per_gib={0.egress_dollars_per_gib!r})"
)


def fleet_digest(snapshot: ClusterSnapshot) -> str:
    """Return the digest of a fleet, without GPU kinds and links that none of its machines has."""
    return digest_of(fleet_text(snapshot.without_unused()))


def fleet_text(snapshot: ClusterSnapshot) -> str:
    """Return the text that identifies a fleet; equal fleets have equal texts."""
    return _text(snapshot, _MACHINE)


def unnamed_fleet_text(snapshot: ClusterSnapshot) -> str:
    """Return the text that identifies a fleet but for the names of its machines."""
    return _text(snapshot, f"Machine({_UNNAMED_MACHINE}")


def digest_of(*texts: str) -> str:
    """Return 32 hexadecimal digits that identify texts in their order."""
    return sha256("\n".join(texts).encode()).hexdigest()[:32]


def _text(snapshot: ClusterSnapshot, machine: str) -> str:
    kinds = _joined(_GPU_KIND, snapshot.gpu_kinds)
    machines = _joined(machine, snapshot.machines)
    links = _joined(_LINK, snapshot.links)
    # One machine is followed by a comma, as Python writes a tuple of one.
    comma = "," if len(snapshot.machines) == 1 else ""
    return f"([{kinds}], ({machines}{comma}), [{links}])"


def _joined(form: str, values: Iterable[GpuKind | Machine | Link]) -> str:
    return ", ".join(form.format(value) for value in values)
