"""Batches of random policies, rewards and values with uneven lengths, in double precision.

In it two right formulas agree to far below 1e-6, so that nothing has to be forgiven.
"""

from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

GROUP_SIZE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """B trajectories in groups, R response positions; shape suffixes as in the trainer."""

    mask: Tensor
    current: Tensor
    proximal: Tensor
    behaviour: Tensor
    reference: Tensor
    rewards: Tensor
    groups: Tensor
    values: Tensor
    token_rewards: Tensor

    @property
    def number_mask(self) -> Tensor:
        """The mask as others write it."""
        return self.mask.double()

    @property
    def lengths(self) -> Tensor:
        return self.mask.sum(dim=1)

    @property
    def outcome(self) -> Tensor:
        """The rewards as others take them: somewhere in a row of tokens."""
        found = torch.zeros_like(self.current)
        found[:, 0] = self.rewards
        return found

    @property
    def uids(self) -> np.ndarray:
        """The groups as verl names them."""
        return np.array([f"prompt-{group}" for group in self.groups.tolist()], dtype=object)


def a_sample(seed: int, *, holes: bool = False) -> Sample:
    """Three groups of ragged responses; with ``holes``, some tokens within are not trained on."""
    generator = torch.Generator().manual_seed(seed)
    rows, columns = 3 * GROUP_SIZE, 9

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    lengths = torch.randint(1, columns + 1, (rows, 1), generator=generator)
    mask = torch.arange(columns)[None, :] < lengths
    if holes:
        mask &= (noise(rows, columns) < 0.5) | (torch.arange(columns) == 0)
    current = -noise(rows, columns).abs()
    return Sample(
        mask=mask,
        current=current,
        proximal=current + 0.4 * noise(rows, columns),
        behaviour=current + 0.8 * noise(rows, columns),
        reference=current + noise(rows, columns),
        rewards=noise(rows),
        # Members of a group need not be neighbours.
        groups=torch.arange(rows)[torch.randperm(rows, generator=generator)] // GROUP_SIZE,
        values=noise(rows, columns),
        token_rewards=noise(rows, columns) * mask,
    )


SEEDS = st.integers(0, 2**32 - 1)
SAMPLES = SEEDS.map(a_sample)
SAMPLES_WITH_HOLES = SEEDS.map(lambda seed: a_sample(seed, holes=True))


def assert_same(ours: Tensor, theirs: Tensor) -> None:
    """To 1e-6, and where numbers are larger than one, of their size."""
    torch.testing.assert_close(ours.double(), theirs.double(), rtol=1e-6, atol=1e-6)
