"""The place of a process among those that train one model: replica, stage and tensor rank.

Frozen and pure. ``mesh`` makes the process groups.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from hetrl_core.plan.pod_sets import Rank
from hetrl_core.plan.training_split import TrainingSplit


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One process's replica, pipeline stage and tensor rank. Rank 0 leads its model."""

    split: TrainingSplit
    replica: int = 0
    stage: int = 0
    tensor_rank: int = 0

    @classmethod
    def of(cls, rank: Rank, split: TrainingSplit) -> Self:
        """Return the place that a row of the rank table gives.

        Raises:
            ValueError: the split has no such place.
        """
        place = cls(
            split=split, replica=rank.replica, stage=rank.stage, tensor_rank=rank.tensor_rank
        )
        for name, number, size in (
            ("replica", place.replica, split.num_replicas),
            ("stage", place.stage, split.num_stages),
            ("tensor rank", place.tensor_rank, split.tensor),
        ):
            if not 0 <= number < size:
                raise ValueError(f"{name} {number} is not among the {size} of the training split")
        return place

    @property
    def rank(self) -> int:
        """Number among the model's processes: tensor ranks of a stage together, then stages."""
        stages, tensor = self.split.num_stages, self.split.tensor
        return (self.replica * stages + self.stage) * tensor + self.tensor_rank

    @property
    def is_first_stage(self) -> bool:
        """Whether it takes tokens in."""
        return self.stage == 0

    @property
    def is_last_stage(self) -> bool:
        """Whether it computes losses."""
        return self.stage == self.split.num_stages - 1

    @property
    def speaks(self) -> bool:
        """Whether its values count in sums: all tensor ranks of a stage have the same values."""
        return self.is_last_stage and self.tensor_rank == 0

    @property
    def is_whole(self) -> bool:
        """Whether it holds a complete model."""
        return self.split.num_stages == 1 and self.split.tensor == 1

    def layers(self, num_layers: int) -> range:
        """Return the layers of its stage, of a model with ``num_layers``.

        Raises:
            ValueError: the stages have another number of layers together.
        """
        stages = self.split.stage_layers or (num_layers,)
        if sum(stages) != num_layers:
            raise ValueError(f"pipeline stages of {stages} layers; the model has {num_layers}")
        first = sum(stages[: self.stage])
        return range(first, first + stages[self.stage])


def dealt(rows: Tensor, shares: tuple[float, ...]) -> list[Tensor]:
    """Return each replica's part of a minibatch's rows.

    Each row goes to the replica that lacks most of its share so far: equal shares are dealt in
    turn, and no prefix of the rows is off anyone's share by a whole row or more.
    """
    total = sum(shares)
    parts: list[list[int]] = [[] for _ in shares]
    for number, row in enumerate(rows.tolist(), start=1):
        lacking = [
            number * share / total - len(part) for share, part in zip(shares, parts, strict=True)
        ]
        parts[lacking.index(max(lacking))].append(row)
    return [torch.tensor(part, dtype=torch.int64) for part in parts]
