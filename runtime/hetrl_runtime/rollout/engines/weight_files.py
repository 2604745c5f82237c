"""Whether a file of weights fits a model, told from names and shapes alone.

Both engines ask before they touch a running model: a file that is found wrong half-way
would leave a mixture of two policies.
"""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open

Shapes = Mapping[str, tuple[int, ...]]


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


def check_fit(weights: Path, *, model: Shapes, has_tied_embeddings: bool) -> None:
    """Refuse weights that do not have the model's names and shapes, all of them and no others.

    Raises:
        ValueError: names the first tensor that does not fit.
    """
    given = read_shapes(weights)
    # A tied matrix has two names and may be written under either or both.
    optional = {"lm_head.weight"} if has_tied_embeddings else set()
    for name in model:
        if name not in given and name not in optional:
            raise ValueError(f"{weights} lacks the tensor {name}")
    for name, shape in given.items():
        if name not in model and name not in optional:
            raise ValueError(f"{weights} has a tensor {name}, which the model has not")
        if name in model and model[name] != shape:
            raise ValueError(f"{weights}: {name} must have shape {model[name]}, has {shape}")
