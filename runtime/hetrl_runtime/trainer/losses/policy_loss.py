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

from hetrl_core.job.algorithm import LossAggregation, StaleWeights

MAX_LOG_RATIO = 20.0
"""Log-ratios are held within ± this before ``exp``, as verl holds them: e^89 is infinite in
float32, and where the loss does not use it, its gradient is zero times infinity, which is NaN."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """Bounds of one step's change of the policy."""

    low: float = 0.2
    high: float = 0.28
    """Above ``low``, so that unlikely tokens can still rise: clip-higher, DAPO
    (arXiv:2503.14476, section 3.1)."""

    dual: float = 3.0
    """Bounds the loss of a bad action that became likelier by ``dual`` times its advantage:
    dual-clip PPO (arXiv:1912.09729, section 3.5)."""

    behaviour_weight: float = 5.0
    """Largest weight proximal/behaviour."""

    beyond: StaleWeights = StaleWeights.TRUNCATE
    """Whether tokens of larger weights count with the largest, or not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyLoss:
    """The loss of every token, and what clipping and weighting did to it."""

    losses_BR: Tensor
    is_clipped_BR: Tensor
    behaviour_weights_BR: Tensor


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

    With ``u = current/proximal`` and ``w = min(proximal/behaviour, cap)``, or zero beyond the cap
    where such tokens are masked::

        loss = w · max(-A·u, -A·clip(u, 1 - low, 1 + high)),  at most w · dual·|A| where A < 0

    (arXiv:2110.00641, section 3; for asynchronous RL arXiv:2505.24298, section 5.2). Where
    proximal and behaviour agree, ``w`` is one and this is PPO. Gradients flow through
    ``current_BR`` alone. Advantages of single tokens, as a critic's are, come as ``(B, R)``.
    """
    ratios_BR = _log_ratios(mask_BR, current_BR - proximal_BR.detach()).exp()
    weights_BR = _log_ratios(mask_BR, (proximal_BR - behaviour_BR).detach()).exp()
    if clip.beyond is StaleWeights.MASK:
        weights_BR = weights_BR.masked_fill(weights_BR > clip.behaviour_weight, 0.0)
    weights_BR = weights_BR.clamp(max=clip.behaviour_weight)
    advantages_B1 = advantages_B[:, None] if advantages_B.dim() == 1 else advantages_B
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
    log_ratios_BR = _log_ratios(mask_BR, reference_BR - current_BR)
    return log_ratios_BR.exp() - 1 - log_ratios_BR


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """The minibatch that a pass is part of, so that its tokens count what they do in the whole.

    A mean of means would favour short passes.
    """

    num_tokens: int
    num_trajectories: int
    most_tokens: int
    """Of one response, by the job."""


def token_weights(mask_BR: Tensor, whole: Whole, aggregation: LossAggregation) -> Tensor:
    """Return what every token's loss counts in the sum that is the minibatch's loss.

    Of N trajectories with n_i tokens each: 1/Σn_i (DAPO, arXiv:2503.14476, section 3.3),
    1/(N·n_i) (GRPO, arXiv:2402.03300, equation 3), or 1/(N·longest allowed) (Dr. GRPO,
    arXiv:2503.20783, section 3.2).
    """
    counts_BR = mask_BR.float()
    match aggregation:
        case LossAggregation.TOKEN_MEAN:
            return counts_BR / whole.num_tokens
        case LossAggregation.SEQUENCE_MEAN:
            lengths_B1 = counts_BR.sum(dim=1, keepdim=True).clamp(min=1)
            return counts_BR / lengths_B1 / whole.num_trajectories
        case LossAggregation.LENGTH_BUDGET:
            return counts_BR / (whole.num_trajectories * whole.most_tokens)


def masked_mean(values_BR: Tensor, mask_BR: Tensor, *, num_tokens: int | None = None) -> Tensor:
    """Return the mean over tokens, or over ``num_tokens`` where these are part of more."""
    count = mask_BR.sum() if num_tokens is None else num_tokens
    return _where(mask_BR, values_BR).sum() / count


def summed(values_BR: Tensor, mask_BR: Tensor) -> Tensor:
    """Return the sum over each trajectory's tokens ``(B,)``."""
    return _where(mask_BR, values_BR).sum(dim=1)


def token_entropy(log_probs_BRV: Tensor) -> Tensor:
    """Return the entropy of each position's distribution, in nats ``(B, R)``."""
    return -(log_probs_BRV.exp() * log_probs_BRV).sum(dim=-1)


def _log_ratios(mask_BR: Tensor, differences_BR: Tensor) -> Tensor:
    return _where(mask_BR, differences_BR).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


def _where(mask_BR: Tensor, values_BR: Tensor) -> Tensor:
    # Before any exp: padding may hold anything, and a gradient of zero times infinity is NaN.
    return values_BR.masked_fill(~mask_BR, 0.0)
