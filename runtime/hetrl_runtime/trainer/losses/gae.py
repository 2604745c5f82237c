"""Advantages token by token, from rewards and a critic's values, as pure functions of tensors.

The caller computes rewards; ``value_loss`` trains the critic on the returns.

Shapes: B trajectories, R response positions; ``mask_BR`` is True where a token was sampled.
What stands elsewhere is never read, whatever it is.
"""

# ruff: noqa: N803, N806, N815  # shape suffixes

from dataclasses import dataclass

import torch
from torch import Tensor

_VARIANCE_FLOOR = 1e-8
"""Added to a variance, so that equal values whiten to zero: what PPO's implementations share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Advantages and returns; zero where there is no token."""

    advantages_BR: Tensor
    returns_BR: Tensor
    """The advantages plus the values: the critic's targets."""


@torch.no_grad()
def generalised_advantages(
    rewards_BR: Tensor,
    values_BR: Tensor,
    mask_BR: Tensor,
    *,
    discount: float,
    trace_decay: float,
) -> Estimate:
    """Return generalised advantage estimates (GAE, arXiv:1506.02438, equation 16).

    From the last token to the first, with gamma the ``discount`` and lambda the ``trace_decay``::

        error = r + gamma·V' - V,    A = error + gamma·lambda·A'

    where V' and A' are of the next token that was sampled: what a tool wrote between is skipped.
    After the last there is nothing to come, whether the response ended or was cut off.
    """
    advantages_BR = torch.zeros_like(values_BR)
    next_values_B = values_BR.new_zeros(len(values_BR))
    next_advantages_B = next_values_B
    for position in reversed(range(values_BR.shape[1])):
        is_token_B, values_B = mask_BR[:, position], values_BR[:, position]
        errors_B = rewards_BR[:, position] + discount * next_values_B - values_B
        found_B = errors_B + discount * trace_decay * next_advantages_B
        next_values_B = torch.where(is_token_B, values_B, next_values_B)
        next_advantages_B = torch.where(is_token_B, found_B, next_advantages_B)
        advantages_BR[:, position] = found_B
    return Estimate(
        advantages_BR=advantages_BR.masked_fill(~mask_BR, 0.0),
        returns_BR=(advantages_BR + values_BR).masked_fill(~mask_BR, 0.0),
    )


def rewards_at_the_end(rewards_B: Tensor, mask_BR: Tensor) -> Tensor:
    """Return each trajectory's reward at its last token, and zero at the others ``(B, R)``."""
    positions_R = torch.arange(mask_BR.shape[1], device=mask_BR.device)
    last_B1 = torch.where(mask_BR, positions_R, -1).amax(dim=1, keepdim=True)
    return torch.where(positions_R == last_B1, rewards_B[:, None], 0.0)


def whitened(values_BR: Tensor, mask_BR: Tensor) -> Tensor:
    """Return the values with mean zero and variance one over all tokens, zero elsewhere.

    Over the whole batch, with the unbiased variance, as PPO's implementations treat advantages.
    A single token says nothing of a variance, and gets zero. In float64, which holds the squares of
    whatever float32 holds.
    """
    tokens = values_BR[mask_BR].double()
    if tokens.numel() <= 1:
        return torch.zeros_like(values_BR)
    scaled_BR = (values_BR - tokens.mean()) * torch.rsqrt(tokens.var() + _VARIANCE_FLOOR)
    return scaled_BR.masked_fill(~mask_BR, 0.0).to(values_BR.dtype)
