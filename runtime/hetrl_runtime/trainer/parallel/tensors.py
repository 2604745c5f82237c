"""Tensors of a split model put together on the leader, and dealt out from it.

One at a time, so that no process but the leader ever holds more than one whole.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor

from hetrl_runtime.trainer.parallel.place import Place

LEADER = 0

# It warns of tensors that are cut both by FSDP and by tensor ranks, which we put together a
# few times a step at most.
logging.getLogger("torch.distributed.tensor._redistribute").setLevel(logging.ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """What a tensor of the model's files is, and on which stage."""

    shape: tuple[int, ...]
    stage: int


class Exchange:
    """Between the leader and wherever tensors lie. All processes call alike, in one order."""

    def __init__(
        self, place: Place, wholes: Mapping[str, Whole], group: dist.ProcessGroup | None
    ) -> None:
        """Register every tensor of the model, the same on all processes of ``group``."""
        self._place = place
        self.wholes = wholes
        self._group = group

    def gather(
        self, mine: Mapping[str, Tensor], dtype: torch.dtype, *, is_sharded: bool
    ) -> dict[str, Tensor]:
        """Return every whole tensor, on the CPU, to the leader; nothing to others.

        Args:
            mine: what of them lies here, by name.
            dtype: precision to put them together in.
            is_sharded: whether other replicas hold parts of them.
        """
        found: dict[str, Tensor] = {}
        takes_part = is_sharded or self._place.replica == 0
        for name, whole in self.wholes.items():
            is_here = whole.stage == self._place.stage
            tensor = _whole(mine[name].to(dtype)) if is_here and takes_part else None
            if whole.stage and self._place.replica == self._place.tensor_rank == 0:
                tensor = self._hand_over(tensor, whole, dtype)
            if tensor is not None and self._place.rank == LEADER:
                found[name] = tensor.cpu().contiguous()
        return found

    def deal_out(self, wholes: Mapping[str, Tensor], mine: Mapping[str, Tensor]) -> None:
        """Overwrite what lies here with the leader's; ``wholes`` may be empty elsewhere."""
        for name, whole in self.wholes.items():
            tensor = (
                wholes[name].to("cpu", torch.float32).contiguous()
                if self._place.rank == LEADER
                else torch.empty(whole.shape)
            )
            if self._group is not None:
                dist.broadcast(tensor, group=self._group, group_src=LEADER)
            if name in mine:
                copy_into(mine[name], tensor)

    def _hand_over(self, tensor: Tensor | None, whole: Whole, dtype: torch.dtype) -> Tensor | None:
        """Send a tensor of a later stage to the leader; for first tensor ranks."""
        if self._place.stage == whole.stage and tensor is not None:
            dist.send(tensor.cpu().contiguous(), group=self._group, group_dst=LEADER)
        elif self._place.rank == LEADER:
            received = torch.empty(whole.shape, dtype=dtype)
            source = whole.stage * self._place.split.tensor
            dist.recv(received, group=self._group, group_src=source)
            return received
        return tensor


def copy_into(target: Tensor, whole: Tensor) -> None:
    """Overwrite a tensor, or the part of it that is here, with a whole one's values."""
    with torch.no_grad():
        local(target).copy_(local(like(target, whole)))


def like(target: Tensor, whole: Tensor) -> Tensor:
    """Return a whole tensor in the way in which ``target`` is divided."""
    if not isinstance(target, DTensor):
        return whole
    return distribute_tensor(
        whole.to(target.device), target.device_mesh, target.placements, src_data_rank=None
    )


def local(tensor: Tensor) -> Tensor:
    """Return what of a tensor is here, sharing its storage."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def divided_like(target: Tensor, mine: Tensor) -> Tensor:
    """Return a distributed tensor with the local part ``mine``, divided as ``target`` is."""
    if not isinstance(target, DTensor):
        return mine
    return DTensor.from_local(
        mine,
        target.device_mesh,
        target.placements,
        run_check=False,
        shape=target.shape,
        stride=target.stride(),
    )


def num_copies(tensor: Tensor, place: Place) -> int:
    """Return how many processes of one stage hold the same values of a tensor."""
    among = place.split.num_replicas * place.split.tensor
    if not isinstance(tensor, DTensor):
        return among
    sizes = tensor.device_mesh.shape
    divided = [
        size
        for size, placement in zip(sizes, tensor.placements, strict=True)
        if not isinstance(placement, Replicate)
    ]
    for size in divided:
        among //= size
    return among


def _whole(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
