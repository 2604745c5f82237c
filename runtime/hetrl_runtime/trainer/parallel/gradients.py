"""Reduction of gradients after the last pass, to those of the whole minibatch."""

from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from hetrl_runtime.trainer.parallel import sharding
from hetrl_runtime.trainer.parallel.mesh import Mesh
from hetrl_runtime.trainer.parallel.stage import Stage
from hetrl_runtime.trainer.parallel.tensors import local, num_copies


def complete(stage: Stage, mesh: Mesh) -> None:
    """Add up what other processes found of the same parameters; one without passes found zero."""
    parameters = list(stage.parameters())
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        elif isinstance(parameter, DTensor):
            # An embedding's comes as a sum over tensor ranks that is still to be made.
            parameter.grad = _gradient(parameter).redistribute(placements=parameter.placements)
    mesh.sum_over_tensor_ranks(stage.partial_gradients())
    if not sharding.is_sharded(stage):
        mesh.sum_over_replicas(_gradient(each) for each in parameters)
    if (shared := stage.shared_by_ends()) is not None:
        mesh.sum_over_ends([_gradient(shared)])


def norm(stage: Stage, mesh: Mesh) -> Tensor:
    """Return the norm of the whole model's gradient, each parameter counted once."""
    shared = stage.shared_by_ends()
    squares = torch.zeros((), device=mesh.device)
    for parameter in stage.parameters():
        copies = num_copies(parameter, mesh.place) * (2 if parameter is shared else 1)
        squares += local(_gradient(parameter)).float().square().sum() / copies
    mesh.sum_over_all(squares)
    return squares.sqrt()


def _gradient(parameter: Tensor) -> Any:
    assert parameter.grad is not None
    return parameter.grad
