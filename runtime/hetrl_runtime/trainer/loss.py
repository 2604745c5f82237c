"""The losses of GRPO with decoupled PPO, as pure functions of tensors.

Three policies meet in a batch. *Behaviour* sampled a token, possibly versions ago;
*proximal* is the policy as the step finds it; *current* moves with every minibatch. Clipping
holds the current policy near the proximal one, and a weight makes up for the distance
between proximal and behaviour, so that stale data moves the policy without holding it back.

Shapes: B trajectories, R response positions, V vocabulary; ``mask_BR`` is True where there
is a token. What stands elsewhere is never read, whatever it is.
"""

# ruff: noqa: N803, N806, N815  # shape suffixes

from dataclasses import dataclass

import torch
from torch import Tensor

_STD_FLOOR = 1e-6
"""Rewards closer together than this are equal: what is left is rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """How far one step may move the policy."""

    low: float = 0.2
    high: float = 0.28
    """Above ``low``, so that unlikely tokens can still rise: clip-higher, DAPO
    (arXiv:2503.14476, section 3.1)."""

    dual: float = 3.0
    """Bounds the loss of a bad action that became likelier by ``dual`` times its advantage:
    dual-clip PPO (arXiv:1912.09729, section 3.5)."""

    behaviour_weight: float = 5.0
    """Largest weight proximal/behaviour; larger ones are cut off, not dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyLoss:
    """The loss of every token, and what clipping and weighting did to it."""

    losses_BR: Tensor
    is_clipped_BR: Tensor
    behaviour_weights_BR: Tensor


def group_advantages(rewards_B: Tensor, groups_B: Tensor) -> Tensor:
    """Return each reward relative to its group, in standard deviations ``(B,)``.

    ``A = (r - mean(group)) / std(group)``: GRPO (arXiv:2402.03300, section 4.1.2). They add
    up to zero over a group; a group whose rewards are all equal says nothing, and gets zeros.
    ``groups_B`` numbers the groups from zero.
    """
    num_groups = int(groups_B.max()) + 1
    sizes_G = _group_sums(torch.ones_like(rewards_B), groups_B, num_groups)
    means_G = _group_sums(rewards_B, groups_B, num_groups) / sizes_G
    centred_B = rewards_B - means_G[groups_B]
    stds_G = (_group_sums(centred_B.square(), groups_B, num_groups) / sizes_G).sqrt()
    scale_G = torch.where(stds_G > _STD_FLOOR, 1 / stds_G, 0.0)
    return centred_B * scale_G[groups_B]


def decoupled_ppo(
    current_BR: Tensor,
    *,
    proximal_BR: Tensor,
    behaviour_BR: Tensor,
    advantages_B: Tensor,
    mask_BR: Tensor,
    clip: Clip,
) -> PolicyLoss:
    """Return the decoupled PPO loss of every token from its three log-probabilities.

    With ``u = current/proximal`` and ``w = min(proximal/behaviour, cap)``::

        loss = w · max(-A·u, -A·clip(u, 1 - low, 1 + high)),  at most w · dual·|A| where A < 0

    (arXiv:2110.00641, section 3; for asynchronous RL arXiv:2505.24298, section 5.2). Where
    proximal and behaviour agree, ``w`` is one and this is PPO. Gradients flow through
    ``current_BR`` alone.
    """
    log_ratios_BR = _where(mask_BR, current_BR - proximal_BR.detach())
    weights_BR = _where(mask_BR, (proximal_BR - behaviour_BR).detach()).exp()
    weights_BR = weights_BR.clamp(max=clip.behaviour_weight)
    ratios_BR = log_ratios_BR.exp()
    advantages_B1 = advantages_B[:, None]
    free_BR = -advantages_B1 * ratios_BR
    held_BR = -advantages_B1 * ratios_BR.clamp(1 - clip.low, 1 + clip.high)
    pessimistic_BR = torch.maximum(free_BR, held_BR)
    bounded_BR = torch.where(
        advantages_B1 < 0,
        torch.minimum(pessimistic_BR, -advantages_B1 * clip.dual),
        pessimistic_BR,
    )
    return PolicyLoss(
        losses_BR=_where(mask_BR, weights_BR * bounded_BR),
        is_clipped_BR=mask_BR & (held_BR > free_BR),
        behaviour_weights_BR=weights_BR,
    )


def kl_k3(current_BR: Tensor, reference_BR: Tensor, mask_BR: Tensor) -> Tensor:
    """Estimate KL(current || reference) at every sampled token, never below zero.

    The "k3" estimator ``r - 1 - log r`` with ``r = reference/current`` (Schulman, "Approximating
    KL divergence", 2020), which GRPO adds to its loss (arXiv:2402.03300, equation 4).
    """
    log_ratios_BR = _where(mask_BR, reference_BR - current_BR)
    return log_ratios_BR.exp() - 1 - log_ratios_BR


def masked_mean(values_BR: Tensor, mask_BR: Tensor, *, num_tokens: int | None = None) -> Tensor:
    """Return the mean over tokens, or over ``num_tokens`` where these are part of more.

    Every token of a minibatch counts the same, in whichever pass or on whichever rank it is
    computed: a mean of means would favour short passes.
    """
    count = mask_BR.sum() if num_tokens is None else num_tokens
    return _where(mask_BR, values_BR).sum() / count


def token_entropy(log_probs_BRV: Tensor) -> Tensor:
    """Return the entropy of each position's distribution, in nats ``(B, R)``."""
    return -(log_probs_BRV.exp() * log_probs_BRV).sum(dim=-1)


def _where(mask_BR: Tensor, values_BR: Tensor) -> Tensor:
    # Before any exp: padding may hold anything, and a gradient of zero times infinity is NaN.
    return values_BR.masked_fill(~mask_BR, 0.0)


def _group_sums(values_B: Tensor, groups_B: Tensor, num_groups: int) -> Tensor:
    return values_B.new_zeros(num_groups).index_add(0, groups_B, values_B)
