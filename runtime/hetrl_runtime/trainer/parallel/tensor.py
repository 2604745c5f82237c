"""Tensor parallelism: which matrices are cut by columns and which by rows.

Inside layers the plan is the one that transformers ships with each architecture; how a cut
matrix computes is PyTorch's (``parallelize_module``). The vocabulary's matrices are cut by
tokens, so that logits are never whole on one rank.
"""

from typing import Any

from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    parallelize_module,
)
from torch.distributed.tensor.placement_types import Replicate

_PARTIAL = "replicated_with_grad_allreduce"
"""A norm over each head: the same weights everywhere, gradients of the heads that are here."""


class UnsplittableError(ValueError):
    """The model cannot be cut that way; the message says why."""


def cut(model: Any, mesh: DeviceMesh, *, cuts_head: bool) -> frozenset[str]:
    """Cut the stage of a causal LM over ``mesh``; its head only if that scores tokens.

    Returns:
        The names of parameters that are whole on every rank while their gradients are not:
        each rank has its own heads' part, and the sum is the gradient.

    Raises:
        UnsplittableError: a dimension cannot be divided.
    """
    check(model.config, mesh.size())
    styles = _styles(model.config)
    plan: dict[str, ParallelStyle] = {
        f"model.{name}": style for name, style in styles.items() if style is not None
    }
    if model.model.embed_tokens is not None:
        plan["model.embed_tokens"] = RowwiseParallel(input_layouts=Replicate())
    if cuts_head:
        plan["lm_head"] = ColwiseParallel()
    is_tied = (
        model.lm_head is not None
        and model.model.embed_tokens is not None
        and model.lm_head.weight is model.model.embed_tokens.weight
    )
    parallelize_module(model, mesh, plan)
    if is_tied:
        model.lm_head.weight = model.model.embed_tokens.weight
    norms = tuple(name.rsplit(".", 1)[1] for name, style in styles.items() if style is None)
    return frozenset(name for name, _ in model.named_parameters() if name.split(".")[-2] in norms)


def _styles(config: Any) -> dict[str, ParallelStyle | None]:
    """Return the architecture's own plan; None where parameters stay whole."""
    found: dict[str, ParallelStyle | None] = {}
    for name, style in config.base_model_tp_plan.items():
        if not name.startswith("layers."):
            continue
        match style:
            case "colwise":
                found[name] = ColwiseParallel()
            case "rowwise":
                found[name] = RowwiseParallel()
            # Norms over all heads, and matrices that are several in one, need them whole.
            case "colwise_gather_output":
                found[name] = ColwiseParallel(output_layouts=Replicate())
            case "rowwise_split_input":
                found[name] = RowwiseParallel(input_layouts=Replicate())
            case str() if style == _PARTIAL:
                found[name] = None
            case _:
                raise UnsplittableError(
                    f"{config.model_type}: no tensor parallelism for {name}, which is {style!r}"
                )
    return found


def check(config: Any, size: int) -> None:
    """Refuse heads that tensor ranks cannot have equally many of.

    Raises:
        UnsplittableError: the number and the size are named.
    """
    for name in ("num_attention_heads", "num_key_value_heads"):
        if getattr(config, name) % size:
            raise UnsplittableError(
                f"tensor parallelism {size} does not divide {name} ({getattr(config, name)})"
            )
