"""Advantages of trajectories relative to their group, as pure functions of tensors.

Rewards include any KL penalty.

Shapes: B trajectories, G groups.
"""

# ruff: noqa: N803, N806  # shape suffixes

import torch
from torch import Tensor

from hetrl_core.job.algorithm import Advantage
from hetrl_runtime.wire.trajectory import EQUAL_REWARDS

_ROUNDING = 1e-12
"""Of a mean in float64, with a margin: equal rewards of any size differ from their mean by less,
and rewards that differ as float32 by more."""


def group_advantages(rewards_B: Tensor, groups_B: Tensor, kind: Advantage) -> Tensor:
    """Return each reward relative to its group ``(B,)``; ``groups_B`` numbers groups from zero.

    ``(r - mean) / std`` (GRPO, arXiv:2402.03300, section 4.1.2), ``r - mean`` (Dr. GRPO,
    arXiv:2503.20783, section 3.2), or ``r`` less the mean of the others, that is
    ``(r - mean)·n/(n - 1)`` (RLOO, arXiv:2402.14740, section 3.2). They add up to zero over a
    group. One whose rewards are all equal says nothing, and gets zeros; so does a group of one.

    In float64, which holds the sums and squares of whatever float32 holds.
    """
    num_groups = int(groups_B.max()) + 1
    dtype, rewards_B = rewards_B.dtype, rewards_B.double()
    sizes_G = _group_sums(torch.ones_like(rewards_B), groups_B, num_groups)
    means_G = _group_sums(rewards_B, groups_B, num_groups) / sizes_G
    centred_B = rewards_B - means_G[groups_B]
    stds_G = (_group_sums(centred_B.square(), groups_B, num_groups) / sizes_G).sqrt()
    match kind:
        case Advantage.GROUP_NORMALISED:
            scale_G = 1 / stds_G
        case Advantage.GROUP_CENTRED:
            scale_G = torch.ones_like(stds_G)
        case Advantage.LEAVE_ONE_OUT:
            scale_G = sizes_G / (sizes_G - 1)
    differ_G = stds_G > (_ROUNDING * means_G.abs()).clamp(min=EQUAL_REWARDS)
    return (centred_B * torch.where(differ_G, scale_G, 0.0)[groups_B]).to(dtype)


def _group_sums(values_B: Tensor, groups_B: Tensor, num_groups: int) -> Tensor:
    return values_B.new_zeros(num_groups).index_add(0, groups_B, values_B)
