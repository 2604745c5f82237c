"""Search for values that are not finite among tensors, in one pass through their memory."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


def first_not_finite(
    tensors: Mapping[str, Tensor], *, limit: float = torch.finfo(torch.float32).max
) -> str:
    """Return the name of the first tensor with a value that is not finite; empty: there is none.

    A value above ``limit``, as it would be infinite in another precision, is not finite either.
    """
    found = {name: each for name, each in tensors.items() if _has_values(each)}
    if not found:
        return ""
    # Together, so that a GPU is waited for once.
    largest = torch.stack([_largest(each) for each in found.values()])
    is_bad = ~(largest <= limit)  # Not-a-number fails this comparison too.
    return list(found)[int(is_bad.int().argmax())] if is_bad.any() else ""


def objection_to_model(
    source: str, tensors: Mapping[str, Tensor], *, limit: float = torch.finfo(torch.float32).max
) -> str:
    """Return why a loaded model must not be used, with its file; empty: all of it is finite."""
    name = first_not_finite(tensors, limit=limit)
    if not name:
        return ""
    return (
        f"model {source} holds values that are not finite: tensor {name}{_file_of(source, name)}; "
        "take a checkpoint from before, or export the model again"
    )


def _file_of(source: str, name: str) -> str:
    """Return where a tensor is among a folder's files; empty where that is not known."""
    index = Path(source) / "model.safetensors.index.json"
    if index.is_file():
        file = json.loads(index.read_text())["weight_map"].get(name)
        return f" of {file}" if file else ""
    return " of model.safetensors" if (index.parent / "model.safetensors").is_file() else ""


def _has_values(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.numel() > 0


def _largest(tensor: Tensor) -> Tensor:
    """Return the largest magnitude; not-a-number where there is one. Makes no copy."""
    values: Any = tensor.detach() if tensor.element_size() > 1 else tensor.detach().float()
    low, high = torch.aminmax(values)
    return torch.maximum(low.float().abs(), high.float().abs())
