"""Layers for training on CPUs: fewer passes over memory, and products in bfloat16.

Training a small model is bound by memory bandwidth: one tensor less to write and read counts as
much as a product (decision 0095). So norms and rotations
have gradients of their own. Sums stay float32: autocast would have norms and attention in bfloat16
as well, which a CPU computes more slowly. ``precision`` says where bfloat16 products pay;
``packing`` has attention of packed rows; ``served_weights`` has an engine's layers, which have no
gradients.

Shapes: N tokens, D features.
"""

# ruff: noqa: N806  # shape suffixes

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # torch's own custom
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from hetrl_runtime.trainer.layers.packing import attend

FAMILIES = frozenset({"llama", "qwen2", "qwen3"})
"""Architectures whose norms and attention are the ones below."""

_FEED_PRODUCTS_ALONE = (
    "input_layernorm",
    "post_attention_layernorm",
    "gate_proj",
    "up_proj",
)
"""Layers of a known family on whose outputs nothing is summed before linear layers read them."""


class HalfProductLinear(nn.Linear):
    """``nn.Linear`` with float32 parameters that multiplies in bfloat16."""

    gives = torch.float32

    def forward(self, inputs: Tensor) -> Tensor:
        """Return products ``(..., outputs)`` of inputs ``(..., inputs)`` of either precision."""
        bias = None if self.bias is None else self.bias.to(torch.bfloat16)
        products = F.linear(inputs.to(torch.bfloat16), self.weight.to(torch.bfloat16), bias)
        return products.to(self.gives)


class _Norm(torch.autograd.Function):
    """``x / sqrt(mean(x²) + epsilon) * weight`` (Zhang and Sennrich, arXiv:1910.07467, eq. 4)."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, epsilon: float, gives: Any) -> Tensor:
        norms = torch.linalg.vector_norm(inputs, dim=-1, keepdim=True)
        scales = norms.square_().div_(inputs.shape[-1]).add_(epsilon).rsqrt_()
        ctx.save_for_backward(inputs, weight, scales)
        found: Tensor = (inputs * scales).mul_(weight).to(gives)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        inputs, weight, scales = ctx.saved_tensors
        inputs_ND = inputs.flatten(0, -2)
        gradients_ND = gradients.flatten(0, -2).to(inputs.dtype)
        scales_N = scales.flatten()
        along_ND = inputs_ND * gradients_ND
        along_N = (along_ND @ weight).mul_(scales_N.pow(3)).div_(-inputs.shape[-1])
        found_ND = gradients_ND * weight
        found_ND.mul_(scales_N[:, None]).addcmul_(inputs_ND, along_N[:, None])
        return found_ND.view_as(inputs), scales_N @ along_ND, None, None


class Norm(nn.Module):
    """The library's norm by root mean square, with a gradient of its own."""

    weight: nn.Parameter
    variance_epsilon: float
    gives: torch.dtype | None = None
    """None: what it is given."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Return normed inputs, of their shape."""
        gives = self.gives or inputs.dtype
        found: Tensor = _Norm.apply(inputs, self.weight, self.variance_epsilon, gives)
        return found


class _Rotation(torch.autograd.Function):
    """Turns pairs of features by angles (Su et al., arXiv:2104.09864, eq. 34), half a head apart.

    Both halves of sines are the same, so that the way back is to turn by as much.
    """

    @staticmethod
    def forward(ctx: Any, states: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        ctx.save_for_backward(cosines, sines)
        return _turned(states, cosines, sines, sign=1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradients: Tensor) -> tuple[Tensor, None, None]:
        return _turned(gradients, *ctx.saved_tensors, sign=-1), None, None


def _turned(states: Tensor, cosines: Tensor, sines: Tensor, *, sign: int) -> Tensor:
    half = states.shape[-1] // 2
    found = states * cosines
    found[..., :half].addcmul_(states[..., half:], sines[..., :half], value=-sign)
    found[..., half:].addcmul_(states[..., :half], sines[..., half:], value=sign)
    return found


class Attention(nn.Module):
    """A known family's attention; some have no norms of queries and keys."""

    q_proj: nn.Linear
    k_proj: nn.Linear
    v_proj: nn.Linear
    o_proj: nn.Linear
    q_norm: nn.Module
    k_norm: nn.Module
    head_dim: int
    scaling: float

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, Tensor],
        attention_mask: Tensor | None = None,
        **others: Any,
    ) -> tuple[Tensor, None]:
        """Return what is attended to ``(..., N, D)``, and no weights."""
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        queries, keys, values = (
            each(hidden_states).view(shape) for each in (self.q_proj, self.k_proj, self.v_proj)
        )
        if hasattr(self, "q_norm"):
            queries, keys = self.q_norm(queries), self.k_norm(keys)
        cosines, sines = (each.unsqueeze(-2) for each in position_embeddings)
        queries, keys = (_Rotation.apply(each, cosines, sines) for each in (queries, keys))
        queries, keys, values = (each.transpose(-2, -3) for each in (queries, keys, values))
        found, _ = attend(
            self, queries, keys, values, attention_mask, scaling=self.scaling, **others
        )
        outputs: Tensor = self.o_proj(found.flatten(-2))
        return outputs, None


def fit(model: Any, *, halves_products: bool) -> None:
    """Let a causal LM's layers, or those of a part of one, compute so.

    Modules and parameters stay the same objects: what divides and gathers them has hooks on
    them. Heads of a kind of their own, as a critic's is, choose for themselves.
    """
    is_known = model.config.model_type in FAMILIES
    for name, module in model.named_modules():
        if halves_products and type(module) is nn.Linear:
            module.__class__ = HalfProductLinear
        elif is_known and type(module).__name__.endswith("RMSNorm"):
            module.__class__ = Norm
        elif is_known and type(module).__name__.endswith("Attention"):
            module.__class__ = Attention
        if halves_products and is_known and name.endswith(_FEED_PRODUCTS_ALONE):
            module.gives = torch.bfloat16
