"""The critic's loss, and its explained variance, as pure functions of tensors.

``policy_loss.token_weights`` weights each token's loss in a minibatch, as for the policy.

Shapes: B trajectories, R response positions; ``mask_BR`` is True where there is a token.
"""

# ruff: noqa: N803, N806, N815  # shape suffixes

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueLoss:
    """The loss of every token, and where clipping set it; zero where there is no token."""

    losses_BR: Tensor
    is_clipped_BR: Tensor


def clipped_value_loss(
    values_BR: Tensor, *, old_BR: Tensor, returns_BR: Tensor, mask_BR: Tensor, clip: float
) -> ValueLoss:
    """Return half the squared error of every value, the larger of free and held.

    Held within ``clip`` of the critic's values when the step began, ``old_BR``, a value gains
    nothing by going further::

        loss = max((V - R)², (clip(V, V_old - clip, V_old + clip) - R)²) / 2

    (PPO's reference implementation; arXiv:2006.05990 calls it PPO-style value clipping).
    Gradients flow through ``values_BR`` alone. What stands in padding is never read.
    """
    old_BR, returns_BR = old_BR.detach(), returns_BR.detach()
    # Before any product: padding may hold anything, and a gradient of zero times infinity is NaN.
    errors_BR = (values_BR - returns_BR).masked_fill(~mask_BR, 0.0)
    held_BR = torch.minimum(torch.maximum(values_BR, old_BR - clip), old_BR + clip)
    held_errors_BR = (held_BR - returns_BR).masked_fill(~mask_BR, 0.0)
    free_BR, held_BR = errors_BR.square(), held_errors_BR.square()
    return ValueLoss(
        losses_BR=0.5 * torch.maximum(free_BR, held_BR),
        is_clipped_BR=mask_BR & (held_BR > free_BR),
    )


@torch.no_grad()
def explained_variance(values_BR: Tensor, *, returns_BR: Tensor, mask_BR: Tensor) -> float:
    """Return ``1 - Var(R - V) / Var(R)`` over all tokens.

    One: the critic knows. Zero: it says the same of everything, or there is nothing to explain,
    as returns are equal. Below: it had better say the same of everything.
    """
    returns, errors = returns_BR[mask_BR], (returns_BR - values_BR)[mask_BR]
    total = returns.var(correction=0)
    return float(1 - errors.var(correction=0) / total) if total > 0 else 0.0
