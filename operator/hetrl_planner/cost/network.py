"""Seconds on a wire: the alpha-beta cost of each collective, and which wire it takes.

Alpha is a channel's latency, beta the inverse of its bandwidth in one direction; collectives
are priced as rings (Thakur, Rabenseifner and Gropp, 2005, section 4).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from hetrl_core.fleet.snapshot import ClusterSnapshot, GpuKind
from hetrl_core.units import GIB

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


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightSync:
    """The wait of a rollout for each new version."""

    transfer_seconds: float
    """Over the link into its region, while it still generates with the version before."""

    load_seconds: float
    """From the region into its GPUs, for which it stops."""

    transferred_bytes: float = 0.0
    """Of the one copy that is sent into its region."""

    egress_dollars: float = 0.0
    """What that costs."""

    @property
    def total_seconds(self) -> float:
        """From publishing until the rollout has the weights."""
        return self.transfer_seconds + self.load_seconds


AT_ONCE = WeightSync(transfer_seconds=0.0, load_seconds=0.0)
"""Weights that are already in place."""


def weight_sync(
    weight_bytes: float,
    snapshot: ClusterSnapshot,
    *,
    trainer_shares: Mapping[str, float],
    rollout_region: str,
) -> WeightSync:
    """Return how published weights reach a region's rollouts.

    Inside a region they are broadcast in a pipelined chain, whose time does not grow with the
    receivers: ``alpha + n·beta``. From another region one reader fetches them over the link
    first and relays them to its peers; a trainer with stages in several regions sends the shares
    that it holds in each, side by side.
    """
    local = between_machines(snapshot, rollout_region, rollout_region)
    away = {region: share for region, share in trainer_shares.items() if region != rollout_region}
    return WeightSync(
        transfer_seconds=max(
            (
                transfer_seconds(
                    weight_bytes * share, between_machines(snapshot, region, rollout_region)
                )
                for region, share in away.items()
            ),
            default=0.0,
        ),
        load_seconds=transfer_seconds(weight_bytes, local),
        transferred_bytes=weight_bytes * sum(away.values()),
        egress_dollars=sum(
            egress_dollars(weight_bytes * share, snapshot, region, rollout_region)
            for region, share in away.items()
        ),
    )


def egress_dollars(size_bytes: float, snapshot: ClusterSnapshot, source: str, target: str) -> float:
    """Return the price of one message from a region into another."""
    return snapshot.link(source, target).egress_dollars_per_gib * size_bytes / GIB
