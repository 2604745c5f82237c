"""The part of a model that one GPU holds: its layers and heads.

Sizes only; seconds are in ``compute``, bytes of everything else in ``memory``.
"""

from dataclasses import dataclass
from functools import cached_property

from hetrl_core.job.architecture import ModelArchitecture
from hetrl_core.plan.plan import Parallelism


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One tensor-parallel rank of one pipeline stage."""

    architecture: ModelArchitecture
    tensor: int
    num_layers: int
    is_first: bool
    """Holds the embedding."""

    is_last: bool
    """Holds the language-model head."""

    @cached_property
    def num_parameters(self) -> float:
        """Parameters on this GPU; a tied matrix is held by both ends of a pipeline."""
        model = self.architecture
        is_whole = self.is_first and self.is_last
        matrices = int(self.is_first) + int(self.is_last)
        if is_whole and model.tied_embeddings:
            matrices = 1
        layers = self.num_layers * model.layer_parameters
        return (layers + matrices * model.embedding_parameters) / self.tensor

    @cached_property
    def multiplied_parameters(self) -> float:
        """Parameters that every token is multiplied by; looking up an embedding is no product."""
        model = self.architecture
        head = model.embedding_parameters if self.is_last else 0
        return (self.num_layers * model.layer_parameters + head) / self.tensor

    @cached_property
    def kv_bytes_per_token(self) -> float:
        """Keys and values of one token on this GPU.

        Key-value heads are divided among tensor ranks, and copied where there are fewer
        heads than ranks.
        """
        model = self.architecture
        heads_here = max(1, model.num_kv_heads // self.tensor)
        per_layer = model.kv_bytes_per_token() / model.num_layers
        return self.num_layers * per_layer * heads_here / model.num_kv_heads


def shards(model: ModelArchitecture, parallelism: Parallelism) -> tuple[Shard, ...]:
    """Return one shard for each pipeline stage, first to last; tensor ranks are alike."""
    last = parallelism.num_stages - 1
    return tuple(
        Shard(
            architecture=model,
            tensor=parallelism.tensor,
            num_layers=num_layers,
            is_first=stage == 0,
            is_last=stage == last,
        )
        for stage, num_layers in enumerate(parallelism.stage_layers)
    )


def split_layers(model: ModelArchitecture, num_stages: int) -> tuple[int, ...]:
    """Divide the layers so that stages hold about equally many parameters.

    The embedding and the head count as many layers as they have layers' parameters, so
    the first and the last stage get fewer layers than those between.

    Raises:
        ValueError: there are more stages than layers.
    """
    if not 1 <= num_stages <= model.num_layers:
        raise ValueError(f"num_stages must be in 1..{model.num_layers}, got {num_stages}")
    if num_stages == 1:
        return (model.num_layers,)
    matrix_layers = model.embedding_parameters / model.layer_parameters
    load = [matrix_layers, *[0.0] * (num_stages - 2), matrix_layers]
    counts = [0] * num_stages
    for number in range(model.num_layers):
        # What is left must still give each empty stage its one layer.
        empty = [stage for stage in range(num_stages) if not counts[stage]]
        must_fill = len(empty) == model.num_layers - number
        stage = min(empty if must_fill else range(num_stages), key=lambda each: load[each])
        counts[stage] += 1
        load[stage] += 1
    return tuple(counts)
