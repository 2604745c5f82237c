"""Weights as the bytes of a safetensors file, each copied once.

The library copies them more than once, which after every step is most of what publishing takes
(decision 0095); reading is left to it. The format is its README's: the header's length, the
header, and then the tensors without gaps.
"""

import json
from collections.abc import Mapping

import torch
from torch import Tensor

_DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16",
}  # fmt: skip
"""By kind, in the order in which the library writes them: numbers stay aligned."""

_ALIGNMENT_BYTES = 8

_METADATA = {"format": "pt"}
"""Hugging Face's loader refuses a file that does not say which library wrote it."""


def to_safetensors(tensors: Mapping[str, Tensor]) -> bytes:
    """Return a file of tensors, which are on the CPU and contiguous.

    Raises:
        ValueError: a tensor has numbers of a kind that no model has.
    """
    for name, tensor in tensors.items():
        if tensor.dtype not in _DTYPES:
            raise ValueError(f"{name}: weights of {tensor.dtype} cannot be published")
    kinds = list(_DTYPES)
    names = sorted(tensors, key=lambda name: (kinds.index(tensors[name].dtype), name))
    header = _header({name: tensors[name] for name in names})
    content = (tensors[name].reshape(-1).view(torch.uint8).numpy().data for name in names)
    return b"".join((len(header).to_bytes(8, "little"), header, *content))


def _header(tensors: Mapping[str, Tensor]) -> bytes:
    """Say where each tensor lies, in this order, filled up so that numbers are aligned."""
    found: dict[str, object] = {"__metadata__": _METADATA}
    end = 0
    for name, tensor in tensors.items():
        begin, end = end, end + tensor.nbytes
        found[name] = {
            "dtype": _DTYPES[tensor.dtype], "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }  # fmt: skip
    text = json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode()
    return text + b" " * (-len(text) % _ALIGNMENT_BYTES)
