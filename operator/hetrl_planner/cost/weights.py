"""Seconds, bytes and dollars of a new version on its way from the trainer into engines.

One function per way (``hetrl_core.weights.way``), over the constants of
``hetrl_core.weights.constants``. All ways begin at the trainer's first process.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import Engine
from hetrl_core.units import GIB
from hetrl_core.weights import constants
from hetrl_core.weights.way import WeightWay, open_ways
from hetrl_planner.cost.compute import BYTES_PER_WEIGHT
from hetrl_planner.cost.network import Channel, between_machines
from hetrl_planner.problem.workload import Workload

GB = 1e9

USUAL_READERS = 4
"""Rollouts of a region that searches assume before they know their number. Ours."""

SECONDS_PER_DOLLAR = 36.0
"""The delay that is worth a dollar of egress when ways are compared: what a dollar buys of GPUs at
100 $ an hour. Ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightSync:
    """The wait of a rollout for each new version."""

    transfer_seconds: float
    """From the trainer into the worker, which generates with the version before meanwhile."""

    load_seconds: float
    """From the worker into its GPUs, for which it stops."""

    transferred_bytes: float = 0.0
    """That are sent into its region from another, to all of its readers, per version."""

    egress_dollars: float = 0.0
    """What that costs."""

    way: WeightWay | None = None
    """``None``: weights are gathered in place."""

    readers: int = 0
    """Rollouts of its region that load each version."""

    sent_bytes: float = 0.0
    """That leave the trainer by gRPC for its region, per version."""

    @property
    def total_seconds(self) -> float:
        """From publishing until the rollout has the weights."""
        return self.transfer_seconds + self.load_seconds


AT_ONCE = WeightSync(transfer_seconds=0.0, load_seconds=0.0)
"""Weights that are already in place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A version for some readers of a region, whichever way it takes."""

    size_bytes: float
    changed_share: float
    """Bytes of a patch over those of the weights."""

    readers: int
    link: Channel
    """From the trainer's machine into the region."""

    local: Channel
    """Between two machines of the region."""

    def seconds(self, way: WeightWay) -> float:
        """Return the time until the last reader has the version in its memory."""
        if way is WeightWay.BROADCAST:
            return self.link.latency_seconds + self.size_bytes / min(
                constants.BROADCAST_NCCL.value, self.link.bytes_per_second
            )
        seconds = stream_seconds(
            self._payload_bytes(way), readers=1 if way.is_relayed else self.readers, link=self.link
        )
        if way.is_patched:
            seconds += making_seconds(self.size_bytes) + applying_seconds(self.size_bytes)
        else:
            seconds = max(seconds, self.size_bytes / constants.DIGEST.value)
        if way.is_relayed and self.readers > 1:
            seconds += stream_seconds(self.size_bytes, readers=self.readers - 1, link=self.local)
        return seconds

    def sent_bytes(self, way: WeightWay) -> float:
        """Return the bytes that leave the trainer by gRPC."""
        if way is WeightWay.BROADCAST:
            return 0.0
        return self._payload_bytes(way) * (1 if way.is_relayed else self.readers)

    def _payload_bytes(self, way: WeightWay) -> float:
        return self.size_bytes * (self.changed_share if way.is_patched else 1.0)


def stream_seconds(size_bytes: float, *, readers: int, link: Channel) -> float:
    """Return the time in which one server sends so much to each reader by gRPC.

    Readers share the server's core and its link; one alone gets no more than a stream's rate.
    """
    together = min(constants.SENDING_CORE.value, link.bytes_per_second)
    alone = min(constants.STREAM.value, link.bytes_per_second)
    return link.latency_seconds + max(readers * size_bytes / together, size_bytes / alone)


def making_seconds(size_bytes: float) -> float:
    """Return the time to make a patch: threads pack it while one digests the version."""
    packing = constants.PATCH_MADE.value * size_bytes / GB / constants.PATCH_THREADS.value
    return max(packing, size_bytes / constants.DIGEST.value)


def applying_seconds(size_bytes: float) -> float:
    """Return the time to apply a patch, and then to digest its result."""
    unpacking = constants.PATCH_APPLIED.value * size_bytes / GB / constants.PATCH_THREADS.value
    return unpacking + size_bytes / constants.DIGEST.value


def weight_syncs(
    work: Workload,
    snapshot: ClusterSnapshot,
    *,
    trainer_region: str,
    readers: Mapping[str, int],
    shares_gpus: bool = False,
    stated: Mapping[str, WeightWay] | None = None,
) -> dict[str, WeightSync]:
    """Return how each version reaches the readers of each region.

    Each region takes its stated way, or by default the one with the least wait and egress; then all
    regions that fetch by gRPC share the trainer's core and network card.
    """
    stated = stated or {}
    found = {
        region: _sync(
            (stated[region],)
            if region in stated
            else open_ways(
                transport=work.weight_transport,
                encoding=work.weight_encoding,
                crosses=region != trainer_region,
                shares_gpus=shares_gpus,
            ),
            work,
            snapshot,
            source=trainer_region,
            region=region,
            readers=count,
        )
        for region, count in readers.items()
    }
    card = between_machines(snapshot, trainer_region, trainer_region)
    together = stream_seconds(
        sum(each.sent_bytes for each in found.values()), readers=1, link=card
    ) + max((_in_engine_seconds(work) for _ in found), default=0.0)
    return {
        region: replace(each, transfer_seconds=max(each.transfer_seconds, together))
        if each.sent_bytes
        else each
        for region, each in found.items()
    }


def _sync(
    ways: Iterable[WeightWay],
    work: Workload,
    snapshot: ClusterSnapshot,
    *,
    source: str,
    region: str,
    readers: int,
) -> WeightSync:
    """Return the wait by the best of some ways; the first of equally good ones."""
    delivery = Delivery(
        size_bytes=BYTES_PER_WEIGHT * work.architecture.num_parameters,
        changed_share=work.changed_share,
        readers=readers,
        link=between_machines(snapshot, source, region),
        local=between_machines(snapshot, region, region),
    )
    return min(
        (sync_by(way, delivery, work, snapshot, source=source, region=region) for way in ways),
        key=lambda each: each.total_seconds + SECONDS_PER_DOLLAR * each.egress_dollars,
    )


def sync_by(
    way: WeightWay,
    delivery: Delivery,
    work: Workload,
    snapshot: ClusterSnapshot,
    *,
    source: str,
    region: str,
) -> WeightSync:
    """Return the wait of a region's rollouts by one way."""
    sent_bytes = delivery.sent_bytes(way)
    crossing = sent_bytes if source != region else 0.0
    if way.is_patched and delivery.changed_share:
        # Over a run: its first version is a patch that needs no base.
        crossing *= work.mean_share / delivery.changed_share
    return WeightSync(
        transfer_seconds=delivery.seconds(way) + _in_engine_seconds(work),
        load_seconds=delivery.size_bytes / constants.LOAD.value,
        transferred_bytes=crossing,
        egress_dollars=egress_dollars(crossing, snapshot, source, region),
        way=way,
        readers=delivery.readers,
        sent_bytes=sent_bytes,
    )


def _in_engine_seconds(work: Workload) -> float:
    """Return the time to write the file that vLLM reads, while it still generates."""
    if work.engine is not Engine.VLLM:
        return 0.0
    return BYTES_PER_WEIGHT * work.architecture.num_parameters / constants.FILE.value


def egress_dollars(size_bytes: float, snapshot: ClusterSnapshot, source: str, target: str) -> float:
    """Return the price of one message from a region into another."""
    return snapshot.link(source, target).egress_dollars_per_gib * size_bytes / GIB


def gather_seconds(parts: Iterable[tuple[float, Channel | None]]) -> float:
    """Return the time in which the trainer's first process gathers a version.

    Tensors come one at a time: from a GPU into its host's memory, and from other processes over the
    training's process group.

    Args:
        parts: the bytes of each stage, and its way to the first one; ``None`` for the first itself.
    """
    seconds = 0.0
    for size_bytes, way in parts:
        seconds += size_bytes / constants.DEVICE_TO_HOST.value
        if way:
            rate = min(constants.GATHER.value, way.bytes_per_second)
            seconds += way.latency_seconds + size_bytes / rate
    return seconds
