"""The weights that an engine computes with: laid out beside generation, exchanged between passes.

On a CPU that multiplies bfloat16, a decoding step is mostly the reading of weights, and oneDNN
lays a plain matrix out anew for every product. Linear layers of a served model hold it laid out
(decision 0095). Which file fits is told by ``weight_files``; when to exchange, by the engine.
"""

# ruff: noqa: SLF001  # what torch's compiler calls for frozen weights has no public name

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

ROWS = 32
"""That a layout is chosen for: as many as decode together on a CPU, more or less."""


class LaidOutLinear(nn.Module):
    """``nn.Linear`` without gradients, its matrix as oneDNN reads it."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.matrix = laid_out(linear.weight.detach())
        self.bias = linear.bias

    def forward(self, inputs: Tensor) -> Tensor:
        """Return products ``(..., outputs)`` of inputs ``(..., inputs)``, in bfloat16."""
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

    def prepare(self, tensors: Mapping[str, Tensor]) -> Prepared:
        """Lay out a file's tensors; touches nothing that a running pass reads."""
        return Prepared(
            parameters={name: each for name, each in tensors.items() if name in self._parameters},
            matrices={name: laid_out(tensors[name]) for name in self._layers},
        )

    def exchange(self, prepared: Prepared) -> None:
        """Put new weights in the place of the old ones; between two passes."""
        with torch.no_grad():
            for name, tensor in prepared.parameters.items():
                self._parameters[name].copy_(tensor)
        for name, matrix in prepared.matrices.items():
            self._layers[name].matrix = matrix


def gains_by_layout(model: Any) -> bool:
    """Tell whether a model's products are in bfloat16, on a CPU for which oneDNN has them."""
    is_on_cpu = model.device.type == "cpu" and model.dtype == torch.bfloat16
    return is_on_cpu and has_products()


def has_products() -> bool:
    """Tell whether oneDNN multiplies bfloat16 on this CPU; it refuses on others."""
    has_library: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return has_library and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def laid_out(matrix: Tensor) -> Tensor:
    """Return a linear layer's weights ``(outputs, inputs)`` as oneDNN reads them."""
    found: Tensor = torch.ops.mkldnn._reorder_linear_weight(matrix.to(torch.bfloat16), ROWS)
    return found


def _lay_out(model: Any) -> Iterator[tuple[str, LaidOutLinear]]:
    """Replace linear layers; yield them by the name that their weights have in files."""
    names = {id(each): name for name, each in model.named_parameters()}
    for path, module in list(model.named_modules()):
        if type(module) is nn.Linear:
            layer = LaidOutLinear(module)
            model.set_submodule(path, layer)
            yield names[id(module.weight)], layer
