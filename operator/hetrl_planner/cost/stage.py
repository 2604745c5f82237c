"""A pipeline stage where it runs: its shard, its kind of GPU, and the wire to the next one."""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

from hetrl_core.fleet.snapshot import GpuKind
from hetrl_core.job.architecture import ModelArchitecture
from hetrl_core.plan.plan import Parallelism
from hetrl_planner.cost.network import Channel
from hetrl_planner.cost.shard import Shard, shards


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedStage:
    """One stage of a replica, on GPUs of one machine."""

    shard: Shard
    kind: GpuKind
    hop: Channel | None = None
    """To the stage that follows; ``None`` for the last."""


def uniform_stages(
    model: ModelArchitecture, parallelism: Parallelism, kind: GpuKind, channel: Channel
) -> tuple[PlacedStage, ...]:
    """Return the stages of a replica on one kind of GPU, with one kind of wire between them."""
    cut = shards(model, parallelism)
    return tuple(
        PlacedStage(shard=shard, kind=kind, hop=None if shard.is_last else channel) for shard in cut
    )


def balanced_layers(
    num_layers: int,
    *,
    fixed_seconds: Sequence[float],
    layer_seconds: Sequence[float],
    most_layers: Sequence[int],
) -> tuple[int, ...] | None:
    """Divide layers so that the slowest stage is as fast as possible, ``None`` if none fits.

    A stage of ``l`` layers takes ``fixed + l·layer`` seconds. That grows with ``l``, so giving
    each layer to the stage that would be least slow with it is optimal. Each stage has at
    least one layer, and at most ``most_layers`` of it, which is what its memory holds. The layer
    balancing of HetRL (arXiv 2512.12476) moves layers between stages to the same end.
    """
    if min(most_layers) < 1 or sum(most_layers) < num_layers or num_layers < len(most_layers):
        return None
    layers = [1] * len(most_layers)
    waiting = [
        (fixed + 2 * layer, stage)
        for stage, (fixed, layer) in enumerate(zip(fixed_seconds, layer_seconds, strict=True))
        if most_layers[stage] > 1
    ]
    heapify(waiting)
    for _ in range(num_layers - len(layers)):
        seconds, stage = waiting[0]
        layers[stage] += 1
        if layers[stage] < most_layers[stage]:
            heapreplace(waiting, (seconds + layer_seconds[stage], stage))
        else:
            heappop(waiting)
    return tuple(layers)
