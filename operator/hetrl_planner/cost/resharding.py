"""Seconds in which generation gathers the layers that training has changed on the same GPUs.

The caller knows which replicas hold and serve which layers.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from hetrl_planner.cost.network import Channel, transfer_seconds


@dataclass(frozen=True, slots=True)
class Source:
    """Layers that training holds somewhere, and the way from there."""

    layers: AbstractSet[int]
    channel: Channel


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedStage:
    """One stage of a replica that generates."""

    layers: range
    num_gpus: int
    inside: Source
    """Its own machine, whose GPUs get a part each."""

    outside: Sequence[Source]
    """By region, the quickest way first."""


def reshard_seconds(served: Iterable[ServedStage], *, bytes_per_layer: float) -> float:
    """Return the time of the slowest stage of a replica.

    Layers that training holds on its machine come from inside, to each of its GPUs its part of
    them; the others come over the network, once, from the nearest source. Ours, after
    HybridFlow (Sheng et al., 2025, section 5).
    """
    return max((_seconds(stage, bytes_per_layer) for stage in served), default=0.0)


def _seconds(stage: ServedStage, bytes_per_layer: float) -> float:
    wanted = set(stage.layers)
    here = wanted & stage.inside.layers
    seconds = 0.0
    if here:
        size_bytes = bytes_per_layer * len(here) / stage.num_gpus
        seconds += transfer_seconds(size_bytes, stage.inside.channel)
    wanted -= here
    for source in stage.outside:
        if there := wanted & source.layers:
            seconds += transfer_seconds(bytes_per_layer * len(there), source.channel)
            wanted -= there
    return seconds
