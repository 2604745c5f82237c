"""The ways of a version into a region, and which of them a job leaves open."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from hetrl_core.job.spec import WeightEncoding, WeightTransport


class WeightWay(StrEnum):
    """A way of weights from the trainer to the rollouts of a region."""

    WHOLE = "Whole"
    """Each rollout fetches all of them by gRPC."""

    BROADCAST = "Broadcast"
    """The trainer sends them to all at once, by NCCL or gloo; in its own region only."""

    PATCHES = "Patches"
    """Each rollout fetches what changed, by gRPC."""

    RELAYED_WHOLE = "RelayedWhole"
    """One rollout fetches all of them, and the others of its region from it."""

    RELAYED_PATCHES = "RelayedPatches"
    """One rollout fetches what changed, and the others of its region all of them from it."""

    @property
    def is_patched(self) -> bool:
        """Whether the trainer sends what changed."""
        return self in {WeightWay.PATCHES, WeightWay.RELAYED_PATCHES}

    @property
    def is_relayed(self) -> bool:
        """Whether one rollout fetches for its region."""
        return self in {WeightWay.RELAYED_WHOLE, WeightWay.RELAYED_PATCHES}


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightPath:
    """The way that a plan chooses for the rollouts of one region, and what it expects of it."""

    region: str
    way: WeightWay
    readers: int
    """Rollouts that load each version."""

    sent_bytes: float = 0.0
    """That leave the trainer for this region, per version."""

    transfer_seconds: float = 0.0
    """From a version's publication until the last rollout has it; they generate meanwhile."""

    load_seconds: float = 0.0
    """For which a rollout pauses."""


FORMER_WAYS = {True: WeightWay.RELAYED_PATCHES, False: WeightWay.WHOLE}
"""By whether weights cross regions, what plans without a stated way use."""


def open_ways(
    *, transport: WeightTransport, encoding: WeightEncoding, crosses: bool, shares_gpus: bool
) -> Iterator[WeightWay]:
    """Yield the ways that a job leaves open for the rollouts of a region, encrypted ones first.

    Args:
        transport: the job's, for the trainer's region.
        encoding: what the job asks to be sent.
        crosses: whether the region is another than the trainer's.
        shares_gpus: whether the rollouts are on the trainer's GPUs, where NCCL refuses them.
    """
    if transport is WeightTransport.NCCL and not crosses:
        yield WeightWay.WHOLE if shares_gpus else WeightWay.BROADCAST
        return
    if encoding is not WeightEncoding.PATCHES:
        yield WeightWay.WHOLE
    if encoding is not WeightEncoding.WHOLE:
        yield WeightWay.PATCHES
    if crosses and encoding is not WeightEncoding.PATCHES:
        yield WeightWay.RELAYED_WHOLE
    if crosses and encoding is not WeightEncoding.WHOLE:
        yield WeightWay.RELAYED_PATCHES
    may_broadcast = transport is WeightTransport.AUTO and not crosses and not shares_gpus
    if may_broadcast and encoding is not WeightEncoding.PATCHES:
        yield WeightWay.BROADCAST


def stated_way(
    paths: tuple[WeightPath, ...], region: str, *, transport: WeightTransport, crosses: bool
) -> WeightWay | None:
    """Return the way that a plan states for a region, as far as the job's transport allows it.

    ``None`` if the plan states none, or the job has changed its mind since: the runtime then does
    what it did before plans stated ways.
    """
    found = next((each.way for each in paths if each.region == region), None)
    if crosses and found is WeightWay.BROADCAST:
        return None
    if transport is WeightTransport.GRPC and found is WeightWay.BROADCAST:
        return None
    if transport is WeightTransport.NCCL and not crosses and found is not WeightWay.BROADCAST:
        return None
    return found
