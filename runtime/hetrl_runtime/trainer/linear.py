"""Linear layers for training on CPUs: products in bfloat16, all around them in float32.

A product takes half the time; what stands between products (norms, rotations, attention, sums)
is slower in bfloat16 on a CPU, and autocast would have much of it so (decision 0095). Where it
pays, ``precision`` tells. An engine's layers, which have no gradients, are ``served_weights``'.
"""

import torch
import torch.nn.functional as F  # noqa: N812  # torch's own custom
from torch import Tensor, nn


class HalfProductLinear(nn.Linear):
    """``nn.Linear`` whose inputs, outputs and parameters are float32."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Return products ``(..., outputs)`` of inputs ``(..., inputs)``."""
        bias = None if self.bias is None else self.bias.to(torch.bfloat16)
        products = F.linear(inputs.to(torch.bfloat16), self.weight.to(torch.bfloat16), bias)
        return products.to(inputs.dtype)


def multiply_in_bfloat16(model: nn.Module) -> None:
    """Let a model's linear layers do so, whose parameters stay whose they are.

    Heads of a kind of their own, as a critic's is, choose for themselves.
    """
    for module in model.modules():
        # Not a new module: what divides matrices and gathers them has hooks on this one.
        if type(module) is nn.Linear:
            module.__class__ = HalfProductLinear
