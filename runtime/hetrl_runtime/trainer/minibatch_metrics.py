"""Metrics of the minibatches of one version, summed until the step reports them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hetrl_runtime.trainer.processes.peers import Peers


@dataclass(frozen=True, slots=True, kw_only=True)
class MinibatchGradient:
    """What a minibatch's passes on this process made, beside the gradients of the parameters."""

    figures: Tensor
    """Metrics, the loss first; on the CPU."""

    norm: Tensor
    """Of the whole model's gradient."""

    @property
    def has_finite_loss(self) -> bool:
        """Whether the loss of the passes here is finite."""
        return bool(self.figures[0].isfinite())

    @property
    def is_finite(self) -> bool:
        """Whether the whole gradient is: a sum of squares keeps what is not."""
        return bool(self.norm.isfinite())


class MinibatchMetrics:
    """This process's sums of metrics and gradient norms over minibatches."""

    def __init__(self, names: Sequence[str]) -> None:
        self._figures = torch.zeros(len(names))
        self._norm = 0.0

    def add(self, gradient: MinibatchGradient) -> None:
        """Add the metrics of one minibatch's passes here, and its gradient's norm."""
        self._figures += gradient.figures
        self._norm += float(gradient.norm)

    def take(self) -> tuple[Tensor, float]:
        """Return the sums, and reset them."""
        found = self._figures, self._norm
        self._figures, self._norm = torch.zeros_like(self._figures), 0.0
        return found


def means(
    names: Sequence[str], mine: MinibatchMetrics | None, peers: Peers, *, num_minibatches: int
) -> tuple[dict[str, float], float]:
    """Return every figure's mean over minibatches, and the gradient norm's, from all processes.

    ``mine`` is None where this process has no part of the model; it must call it as well.
    """
    figures, norm = mine.take() if mine else (torch.zeros(len(names)), 0.0)
    # Every process of a model finds the same norm.
    said = torch.tensor([*figures.tolist(), norm, 1.0 if mine else 0.0])
    *sums, norms, num_speakers = peers.pooled(said).tolist()
    found = {name: each / num_minibatches for name, each in zip(names, sums, strict=True)}
    return found, norms / num_speakers / num_minibatches
