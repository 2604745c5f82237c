"""Seconds in which generation gathers the layers that training has changed on the same GPUs.

Who holds and who serves which layers where is the caller's to know.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from hetrl_planner.cost.network import Channel, transfer_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedStage:
    """One stage of a replica that generates."""

    layers: range
    held: AbstractSet[int]
    """Layers that some training stage holds on its machine."""

    num_gpus: int
    inside: Channel
    """Between GPUs of its machine."""

    outside: Channel
    """From the trainer's main region to its machine."""


def reshard_seconds(served: Iterable[ServedStage], *, bytes_per_layer: float) -> float:
    """Return the time of the slowest stage of a replica.

    Layers that training holds on its machine come from inside, to each of its GPUs its part of
    them; the others over the network, once. Ours, after HybridFlow (Sheng et al., 2025, section 5).
    """
    return max((_seconds(stage, bytes_per_layer) for stage in served), default=0.0)


def _seconds(stage: ServedStage, bytes_per_layer: float) -> float:
    here = len(stage.held & set(stage.layers))
    away = len(stage.layers) - here
    seconds = 0.0
    if here:
        seconds += transfer_seconds(bytes_per_layer * here / stage.num_gpus, stage.inside)
    if away:
        seconds += transfer_seconds(bytes_per_layer * away, stage.outside)
    return seconds
