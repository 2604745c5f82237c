"""Log-probabilities over a vocabulary whose logits lie on several tensor-parallel ranks.

No rank ever holds all logits of a position: sums go around, not logits (Shoeybi et al.,
Megatron-LM, arXiv:1909.08053, section 3).
"""

# ruff: noqa: N803, N806  # shapes: B trajectories, R response positions, V vocabulary, here

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabularyShard:
    """The tokens whose logits are here."""

    mesh: DeviceMesh
    first: int

    def scores(self, logits_BRV: Tensor, tokens_BR: Tensor) -> tuple[Tensor, Tensor]:
        """Return log-probability of ``tokens_BR`` and entropy, in nats, at each position.

        Gradients flow back from the log-probabilities alone.
        """
        with torch.no_grad():
            highest_BR = self._whole(logits_BRV.amax(dim=-1), "max")
        shifted_BRV = logits_BRV - highest_BR[..., None]
        log_sum_BR = self._whole(shifted_BRV.exp().sum(dim=-1), "sum").log()
        size = logits_BRV.shape[-1]
        local_BR = tokens_BR - self.first
        is_here_BR = (local_BR >= 0) & (local_BR < size)
        found_BR = shifted_BRV.gather(2, local_BR.clamp(0, size - 1)[..., None]).squeeze(2)
        token_BR = self._whole(found_BR.masked_fill(~is_here_BR, 0.0), "sum")
        with torch.no_grad():
            # H = log Σe^x - Σ p·x
            weighted_BR = (shifted_BRV * (shifted_BRV - log_sum_BR[..., None]).exp()).sum(dim=-1)
            entropy_BR = log_sum_BR - self._whole(weighted_BR, "sum")
        return token_BR - log_sum_BR, entropy_BR

    def _whole(self, mine: Tensor, operation: str) -> Tensor:
        partial = DTensor.from_local(mine, self.mesh, [Partial(operation)], run_check=False)
        return partial.redistribute(placements=[Replicate()]).to_local()
