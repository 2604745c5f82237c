"""Files of weights: views of the tensors in one, and whether they fit a model.

Both engines ask before they touch a running model: a file that is found wrong half-way
would leave a mixture of two policies.
"""

import json
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from hetrl_runtime.transport.weights.regions import Bytes

Shapes = Mapping[str, tuple[int, ...]]

_LENGTH_BYTES = 8
_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "BF16": torch.bfloat16,
    "F16": torch.float16,
}


def read_shapes(*files: Path) -> Shapes:
    """Return the shape of every tensor in safetensors files, by name; reads their headers only.

    Raises:
        ValueError: a file is not there or is not safetensors.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for file in files:
        try:
            with safe_open(file, framework="numpy") as tensors:
                for name in tensors.keys():  # noqa: SIM118  # not a mapping: it has no iterator
                    shapes[name] = tuple(tensors.get_slice(name).get_shape())
        except (OSError, SafetensorError) as error:
            raise ValueError(f"cannot read the weights {file}: {error}") from error
    return shapes


def tensors_in(weights: Bytes) -> Mapping[str, Tensor]:
    """Return the tensors of a safetensors file, which are views: its bytes must stay as they are.

    The library would copy each of them.

    Raises:
        ValueError: the bytes are not safetensors.
    """
    try:
        return dict(_views(weights))
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise ValueError(
            f"the weights, {len(weights)} bytes, are no safetensors file: {error}"
        ) from error


def shapes_of(tensors: Mapping[str, Tensor]) -> Shapes:
    """Return the shape of every tensor."""
    return {name: tuple(each.shape) for name, each in tensors.items()}


def check_fit(given: Shapes, *, model: Shapes, has_tied_embeddings: bool) -> None:
    """Refuse weights that do not have the model's names and shapes, all of them and no others.

    Raises:
        ValueError: names the first tensor that does not fit.
    """
    # A tied matrix has two names and may be written under either or both.
    optional = {"lm_head.weight"} if has_tied_embeddings else set()
    for name in model:
        if name not in given and name not in optional:
            raise ValueError(f"the weights lack the tensor {name}")
    for name, shape in given.items():
        if name not in model and name not in optional:
            raise ValueError(f"the weights have a tensor {name}, which the model has not")
        if name in model and model[name] != shape:
            raise ValueError(f"the weights' {name} must have shape {model[name]}, has {shape}")


def _views(weights: Bytes) -> Iterator[tuple[str, Tensor]]:
    start = _LENGTH_BYTES + int.from_bytes(weights[:_LENGTH_BYTES], "little")
    if start > len(weights):
        raise ValueError(f"the header ends at byte {start}")
    header = json.loads(bytes(weights[_LENGTH_BYTES:start]))
    numbers = _numbers(weights)[start:]
    for name, each in header.items():
        if name != "__metadata__":
            part = numbers[slice(*each["data_offsets"])]
            yield name, part.view(_DTYPES[each["dtype"]]).view(each["shape"])


def _numbers(weights: Bytes) -> Tensor:
    with warnings.catch_warnings():
        # Served weights are never written to.
        warnings.filterwarnings("ignore", "The given buffer is not writable")
        return torch.frombuffer(weights, dtype=torch.uint8)
