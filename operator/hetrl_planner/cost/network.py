"""Seconds on a wire: the alpha-beta cost of each collective, and which wire it takes.

Alpha is a channel's latency, beta the inverse of its bandwidth in one direction; collectives
are priced as rings (Thakur, Rabenseifner and Gropp, 2005, section 4).
"""

from dataclasses import dataclass

from hetrl_core.fleet.snapshot import ClusterSnapshot, GpuKind

INTRA_NODE_LATENCY_SECONDS = 3e-6
"""Per hop of a collective inside a machine. Ours: NCCL's small all-reduces over NVLink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A link that carries messages."""

    bytes_per_second: float
    latency_seconds: float


def inside_machine(kind: GpuKind) -> Channel:
    """Return the channel between two GPUs of one machine."""
    return Channel(
        bytes_per_second=kind.intra_node_bytes_per_second,
        latency_seconds=INTRA_NODE_LATENCY_SECONDS,
    )


def between_machines(snapshot: ClusterSnapshot, source: str, target: str) -> Channel:
    """Return the channel from a machine of one region to a machine of another or the same."""
    link = snapshot.link(source, target)
    return Channel(bytes_per_second=link.bytes_per_second, latency_seconds=link.latency_seconds)


def transfer_seconds(size_bytes: float, channel: Channel) -> float:
    """Return the time of one message: ``alpha + n·beta``."""
    return channel.latency_seconds + size_bytes / channel.bytes_per_second


def all_reduce_seconds(size_bytes: float, *, members: int, channel: Channel) -> float:
    """Return the time of a ring all-reduce: ``2(p-1)·alpha + 2(p-1)/p·n·beta``."""
    if members == 1:
        return 0.0
    steps = 2 * (members - 1)
    return steps * (channel.latency_seconds + size_bytes / members / channel.bytes_per_second)


def all_gather_seconds(size_bytes: float, *, members: int, channel: Channel) -> float:
    """Return the time of a ring all-gather or reduce-scatter: half of an all-reduce's."""
    return all_reduce_seconds(size_bytes, members=members, channel=channel) / 2
