"""A pipeline stage where it runs: its shard, its kind of GPU, and the wire to the next one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hetrl_core.architecture import ModelArchitecture
from hetrl_core.cluster import GpuKind
from hetrl_core.plan import Parallelism
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
    seconds: Callable[[int, int], float],
    most_layers: Sequence[int],
) -> tuple[int, ...] | None:
    """Divide layers so that the slowest stage is as fast as can be, ``None`` where none fits.

    ``seconds(stage, layers)`` grows with the layers, so giving each layer to the stage that
    would be least slow with it is optimal. Each stage has at least one layer, and at most
    ``most_layers`` of it, which is what its memory holds. The layer balancing of HetRL
    (arXiv 2512.12476) moves layers between stages to the same end.
    """
    stages = range(len(most_layers))
    if min(most_layers) < 1 or sum(most_layers) < num_layers or num_layers < len(most_layers):
        return None
    layers = [1 for _ in stages]
    for _ in range(num_layers - len(layers)):
        open_stages = [stage for stage in stages if layers[stage] < most_layers[stage]]
        best = min(open_stages, key=lambda stage: (seconds(stage, layers[stage] + 1), stage))
        layers[best] += 1
    return tuple(layers)
