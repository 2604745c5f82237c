"""Weights as the bytes of a safetensors file, each copied once, into memory that was used before.

The library copies them more than once and into new memory, which after every step is most of what
publishing takes (decision 0095). The format is its README's: the header's length, the header, and
then the tensors without gaps.
"""

import json
from collections.abc import Mapping

import torch
from torch import Tensor

from hetrl_runtime.compute.buffers import Buffers

_DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
}
"""By kind, in the order in which the library writes them: numbers stay aligned."""

_ALIGNMENT_BYTES = 8

_METADATA = {"format": "pt"}
"""Hugging Face's loader refuses a file that does not say which library wrote it."""


class WeightBytes:
    """One version's bytes after another's; those that everybody has let go of are written over."""

    def __init__(self) -> None:
        self._buffers = Buffers()

    def of(self, tensors: Mapping[str, Tensor]) -> memoryview:
        """Return a file of tensors, which are on the CPU and contiguous.

        It does not change while a view of it, or of a part of it, exists.

        Raises:
            ValueError: a tensor has numbers of a kind that no model has.
        """
        for name, tensor in tensors.items():
            if tensor.dtype not in _DTYPES:
                raise ValueError(f"{name}: weights of {tensor.dtype} cannot be published")
        kinds = list(_DTYPES)
        names = sorted(tensors, key=lambda name: (kinds.index(tensors[name].dtype), name))
        header = _header({name: tensors[name] for name in names})
        content = (_bytes(tensors[name]) for name in names)
        return self._joined([len(header).to_bytes(8, "little"), header, *content])

    def _joined(self, parts: list[bytes | memoryview]) -> memoryview:
        file = self._buffers.acquire(sum(map(len, parts)))
        start = 0
        for part in parts:
            file[start : start + len(part)] = part
            start += len(part)
        return file.toreadonly()


def _bytes(tensor: Tensor) -> memoryview:
    found: memoryview = tensor.reshape(-1).view(torch.uint8).numpy().data
    return found


def _header(tensors: Mapping[str, Tensor]) -> bytes:
    """Say where each tensor lies, in this order, filled up so that numbers are aligned."""
    found: dict[str, object] = {"__metadata__": _METADATA}
    end = 0
    for name, tensor in tensors.items():
        begin, end = end, end + tensor.nbytes
        found[name] = {
            "dtype": _DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode()
    return text + b" " * (-len(text) % _ALIGNMENT_BYTES)
