"""Weights, gradients and optimizer state divided among replicas, by PyTorch's FSDP2.

With ``Sharding.OPTIMIZER`` whole weights stay from the first pass of a step to the last; with
``FULL`` each layer's are gathered when it computes. Master weights are float32 either way, and
on a GPU what is gathered is bfloat16.
"""

from collections.abc import Iterator
from typing import cast

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from hetrl_core.plan.plan import Sharding, TrainingMode
from hetrl_runtime.trainer.parallel.mesh import Mesh
from hetrl_runtime.trainer.parallel.stage import Stage


def shards(mesh: Mesh) -> bool:
    """Tell whether a split divides weights among replicas."""
    split = mesh.place.split
    return split.mode.sharding is not Sharding.NONE and split.num_replicas > 1


def shard(stage: Stage, mesh: Mesh) -> None:
    """Divide a stage among the replicas, if the split says so."""
    if not shards(mesh):
        return
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16 if mesh.device.type == "cuda" else None,
        reduce_dtype=torch.float32,
    )
    reshards = mesh.place.split.mode.sharding is Sharding.FULL
    for block in stage.blocks():
        fully_shard(block, mesh=mesh.replicas, mp_policy=policy, reshard_after_forward=reshards)
    fully_shard(stage, mesh=mesh.replicas, mp_policy=policy, reshard_after_forward=reshards)
    for part in _parts(stage):
        # A pass's loss is its share of the minibatch's: gradients add up for any number of rows.
        part.set_gradient_divide_factor(1.0)
        # Gloo cannot scale while it sums.
        part.set_force_sum_reduction_for_comms(True)


def is_sharded(stage: Stage) -> bool:
    """Tell whether replicas hold only parts of the stage's weights."""
    return isinstance(stage, FSDPModule)


def before_pass(stage: Stage, mode: TrainingMode, *, is_last: bool) -> None:
    """Put the sum over replicas off until the last backward pass of a minibatch.

    Weights that stay between passes are gathered once, so that replicas may have different
    numbers of them.
    """
    if isinstance(stage, FSDPModule):
        stage.set_requires_gradient_sync(is_last)
        stage.set_is_last_backward(is_last)
        stage.set_reshard_after_backward(is_last or mode.sharding is Sharding.FULL)


def reshard(stage: Stage) -> None:
    """Free weights gathered for passes, so that parameters are this replica's shards."""
    for part in _parts(stage):
        part.reshard()


def _parts(stage: nn.Module) -> Iterator[FSDPModule]:
    for part in stage.modules():
        if isinstance(part, FSDPModule):
            yield cast("FSDPModule", part)
