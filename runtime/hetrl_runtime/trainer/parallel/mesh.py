"""The process groups among those that train one model, and the sums that go through them."""

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from hetrl_core.plan.training_split import TrainingSplit
from hetrl_runtime.trainer.parallel.place import Place
from hetrl_runtime.trainer.parallel.tensors import local


class Mesh:
    """Groups along each axis of the split; this process is in one of each.

    Every process must make it at the same time; those that have no part of it ``stand_by``.
    """

    def __init__(
        self,
        place: Place,
        device: torch.device,
        *,
        everyone: dist.ProcessGroup,
        first_rank: int = 0,
    ) -> None:
        """Make the groups of one model's processes.

        Args:
            place: of this process among them.
            device: what it computes on.
            everyone: all of them, over which tensors go through CPUs.
            first_rank: of the one that leads them, among all processes there are.
        """
        self.place = place
        self.device = device
        self.everyone = everyone
        self._groups = _Groups(place.split, device, first_rank=first_rank)

    @property
    def replicas(self) -> DeviceMesh:
        """Processes at the same place of other replicas."""
        return self._groups.axes["replica"]

    @property
    def stages(self) -> DeviceMesh:
        """Processes of the other stages of the replica."""
        return self._groups.axes["stage"]

    @property
    def tensor(self) -> DeviceMesh:
        """Processes that hold the same layers of the replica."""
        return self._groups.axes["tensor"]

    def sum_over_replicas(self, tensors: Iterable[Tensor]) -> None:
        """Add up what corresponding processes of all replicas hold."""
        if self.place.split.num_replicas > 1:
            _add_up(tensors, self.replicas.get_group())

    def copy_from_first_replica(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite each tensor with what the first replica has at the same place."""
        if self.place.split.num_replicas > 1:
            for tensor in tensors:
                dist.broadcast(local(tensor), group=self.replicas.get_group(), group_src=0)

    def sum_over_tensor_ranks(self, tensors: Iterable[Tensor]) -> None:
        """Add up what the tensor ranks of this stage hold."""
        if self.place.split.tensor > 1:
            _add_up(tensors, self.tensor.get_group())

    def sum_over_ends(self, tensors: Iterable[Tensor]) -> None:
        """Add up what the first and the last stage hold; nothing for the stages between."""
        if self._groups.ends is not None:
            _add_up(tensors, self._groups.ends)

    def sum_over_all(self, tensor: Tensor) -> None:
        """Add up what all processes of the model hold."""
        dist.all_reduce(tensor, group=self._groups.together)


def stand_by(split: TrainingSplit, device: torch.device, *, first_rank: int) -> None:
    """Make the groups of a model that this process has no part of, beside those that have one."""
    _Groups(split, device, first_rank=first_rank)


class _Groups:
    """Of one model; all processes make all groups, in one order."""

    def __init__(self, split: TrainingSplit, device: torch.device, *, first_rank: int) -> None:
        shape = (split.num_replicas, split.num_stages, split.tensor)
        ranks = first_rank + torch.arange(split.num_ranks).reshape(shape)
        self.axes = DeviceMesh(device.type, ranks, mesh_dim_names=("replica", "stage", "tensor"))
        self.ends = _ends(ranks) if split.num_stages > 1 else None
        is_all = split.num_ranks == dist.get_world_size()
        self.together: Any = None if is_all else dist.new_group(ranks.flatten().tolist())


def _ends(ranks: Tensor) -> Any:
    """Return the group of a first and a last stage that has this process in it, if any has."""
    lines = [
        [int(ranks[replica, 0, tensor]), int(ranks[replica, -1, tensor])]
        for replica in range(ranks.shape[0])
        for tensor in range(ranks.shape[2])
    ]
    groups = [(line, dist.new_group(line)) for line in lines]
    return next((group for line, group in groups if dist.get_rank() in line), None)


def _add_up(tensors: Iterable[Tensor], group: dist.ProcessGroup) -> None:
    for tensor in tensors:
        dist.all_reduce(local(tensor), group=group)
