"""The weights that an engine computes with: packed during generation, exchanged between passes.

On a CPU a decoding step of a wide model mostly reads weights, and oneDNN packs a plain matrix again
for every product. Linear layers of such a model hold it packed as oneDNN reads it (decision 0095).
``weight_files`` checks which file fits; the engine decides when to exchange.
"""

# ruff: noqa: SLF001  # what torch's compiler calls for frozen weights has no public name

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from hetrl_runtime.compute import precision

ROWS = 32
"""That a layout is chosen for: as many as decode together on a CPU, more or less."""


class LaidOutLinear(nn.Module):
    """``nn.Linear`` without gradients, its matrix as oneDNN reads it."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.matrix = laid_out(linear.weight.detach(), linear.weight.dtype)
        self.bias = linear.bias

    def forward(self, inputs: Tensor) -> Tensor:
        """Return products ``(..., outputs)`` of inputs ``(..., inputs)``."""
        found: Tensor = torch.ops.mkldnn._linear_pointwise(
            inputs, self.matrix, self.bias, "none", [], ""
        )
        return found


@dataclass(frozen=True, slots=True)
class Prepared:
    """New weights, ready to be exchanged."""

    parameters: Mapping[str, Tensor]
    matrices: Mapping[str, Tensor]


class ServedWeights:
    """A model's weights by their names in files; its linear layers', where it pays, laid out."""

    def __init__(self, model: Any) -> None:
        self.shapes = {name: tuple(each.shape) for name, each in model.state_dict().items()}
        self._layers = dict(_lay_out(model)) if gains_by_layout(model) else {}
        self._parameters: dict[str, Tensor] = model.state_dict()
        self._dtype: torch.dtype = model.dtype

    def prepare(self, tensors: Mapping[str, Tensor]) -> Prepared:
        """Lay out a file's tensors; touches nothing that a running pass reads."""
        return Prepared(
            parameters={name: each for name, each in tensors.items() if name in self._parameters},
            matrices={name: laid_out(tensors[name], self._dtype) for name in self._layers},
        )

    def exchange(self, prepared: Prepared) -> None:
        """Put new weights in the place of the old ones; between two passes."""
        with torch.no_grad():
            for name, tensor in prepared.parameters.items():
                self._parameters[name].copy_(tensor)
        for name, matrix in prepared.matrices.items():
            self._layers[name].matrix = matrix


def gains_by_layout(model: Any) -> bool:
    """Tell whether a model's products are on a CPU, and worth a layout."""
    if model.device.type != "cpu" or not has_products(model.dtype):
        return False
    # Of narrow ones, PyTorch's own products of float32 are the faster.
    hidden_size: int = model.config.get_text_config().hidden_size
    return model.dtype != torch.float32 or hidden_size >= precision.LEAST_SERVED_SIZE


def has_products(dtype: torch.dtype) -> bool:
    """Tell whether oneDNN multiplies this on this CPU; it refuses bfloat16 on some."""
    has_library: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if dtype == torch.bfloat16:
        return has_library and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return has_library and dtype == torch.float32


def laid_out(matrix: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a linear layer's weights ``(outputs, inputs)`` as oneDNN reads them."""
    found: Tensor = torch.ops.mkldnn._reorder_linear_weight(matrix.to(dtype), ROWS)
    return found


def _lay_out(model: Any) -> Iterator[tuple[str, LaidOutLinear]]:
    """Replace linear layers; yield them by the name that their weights have in files."""
    names = {id(each): name for name, each in model.named_parameters()}
    for path, module in list(model.named_modules()):
        if type(module) is nn.Linear:
            layer = LaidOutLinear(module)
            model.set_submodule(path, layer)
            yield names[id(module.weight)], layer
