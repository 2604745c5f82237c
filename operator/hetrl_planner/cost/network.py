"""Seconds on a wire: the alpha-beta cost of each collective, and which wire it takes.

Alpha is a channel's latency, beta the inverse of its bandwidth in one direction; collectives
are priced as rings (Thakur, Rabenseifner and Gropp, 2005, section 4).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations

from hetrl_core.fleet.snapshot import ClusterSnapshot, GpuKind

INTRA_NODE_LATENCY_SECONDS = 3e-6
"""Per hop of a collective inside a machine. Ours: NCCL's small all-reduces over NVLink."""

MAX_EXACT_REGIONS = 7
"""Regions up to which the best ring through them is found by trying every order."""


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


Place = tuple[str, str]
"""A machine and its region."""


def hop_sharing(snapshot: ClusterSnapshot, hops: Sequence[tuple[Place, Place]]) -> list[float]:
    """Return into how many parts each hop's bandwidth is divided, for hops that are used at once.

    All hops between two regions share their link, and those from or to a machine its network card,
    which has the rate of a link within the region. Hops inside a machine share nothing.
    """
    leaving = [hop for hop in hops if hop[0][0] != hop[1][0]]
    links = Counter((source[1], target[1]) for source, target in leaving)
    cards_out = Counter(source for source, _ in leaving)
    cards_in = Counter(target for _, target in leaving)

    def parts(source: Place, target: Place) -> float:
        if source[0] == target[0]:
            return 1.0
        rate = between_machines(snapshot, source[1], target[1]).bytes_per_second
        crossing = links[source[1], target[1]] if source[1] != target[1] else 1
        return max(
            float(crossing),
            cards_out[source] * rate / _card(snapshot, source),
            cards_in[target] * rate / _card(snapshot, target),
        )

    return [parts(*hop) for hop in hops]


def _card(snapshot: ClusterSnapshot, place: Place) -> float:
    """Return the rate of a machine's network card: no link of it is faster."""
    return between_machines(snapshot, place[1], place[1]).bytes_per_second


def ring_through(snapshot: ClusterSnapshot, regions: Sequence[str]) -> Channel:
    """Return the slowest wire of the best ring through the machines of regions, in their order."""
    first, *others = regions
    if not others:
        return between_machines(snapshot, first, first)
    orders: Iterable[Sequence[str]] = (
        permutations(others)
        if len(regions) <= MAX_EXACT_REGIONS
        else (_nearest_first(snapshot, first, others),)
    )
    return max(
        (_slowest(snapshot, (first, *order, first)) for order in orders),
        key=lambda channel: (channel.bytes_per_second, -channel.latency_seconds),
    )


def _slowest(snapshot: ClusterSnapshot, order: Sequence[str]) -> Channel:
    hops = [between_machines(snapshot, source, target) for source, target in pairwise(order)]
    return Channel(
        bytes_per_second=min(hop.bytes_per_second for hop in hops),
        latency_seconds=max(hop.latency_seconds for hop in hops),
    )


def _nearest_first(snapshot: ClusterSnapshot, first: str, others: Sequence[str]) -> list[str]:
    left, order = set(others), [first]
    while left:
        last = order[-1]
        fastest = max(
            sorted(left), key=lambda each: between_machines(snapshot, last, each).bytes_per_second
        )
        left.remove(fastest)
        order.append(fastest)
    return order[1:]
