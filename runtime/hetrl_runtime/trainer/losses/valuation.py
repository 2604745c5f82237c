"""Returns and advantages of a batch from a critic's values.

Pure. Every process computes them from the values of the whole batch, also without a part of the
critic. ``critic`` computes the values.
"""

# ruff: noqa: N803, N806, N815  # shapes: B trajectories, R response positions

from dataclasses import dataclass

from torch import Tensor

from hetrl_core.job.algorithm import CriticSpec
from hetrl_runtime.trainer.batch import Batch
from hetrl_runtime.trainer.losses.gae import Estimate, generalised_advantages, whitened
from hetrl_runtime.trainer.losses.policy_loss import masked_mean
from hetrl_runtime.trainer.losses.value_loss import explained_variance


@dataclass(frozen=True, slots=True, kw_only=True)
class Valuation:
    """The critic's values of a whole batch before the step, with returns and advantages."""

    values_BR: Tensor
    returns_BR: Tensor
    advantages_BR: Tensor
    """Whitened, where the job says so."""

    def figures(self, batch: Batch) -> dict[str, float]:
        """Return what was expected of a batch and how it came, for a step's report."""
        mask_BR = batch.mask_BR
        return {
            "value_mean": float(masked_mean(self.values_BR, mask_BR)),
            "return_mean": float(masked_mean(self.returns_BR, mask_BR)),
            "explained_variance": explained_variance(
                self.values_BR, returns_BR=self.returns_BR, mask_BR=mask_BR
            ),
        }


def valued(batch: Batch, *, values_BR: Tensor, rewards_BR: Tensor, critic: CriticSpec) -> Valuation:
    """Return how much better every token came than was expected; all tensors are whole."""
    found: Estimate = generalised_advantages(
        rewards_BR,
        values_BR,
        batch.mask_BR,
        discount=critic.discount,
        trace_decay=critic.trace_decay,
    )
    advantages_BR = found.advantages_BR
    if critic.whiten_advantages:
        advantages_BR = whitened(advantages_BR, batch.mask_BR)
    return Valuation(values_BR=values_BR, returns_BR=found.returns_BR, advantages_BR=advantages_BR)
