"""The process groups among those that train one model, and the sums that go through them."""

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from hetrl_runtime.trainer.parallel.place import Place
from hetrl_runtime.trainer.parallel.tensors import local


class Mesh:
    """Groups along each axis of the split, of which this process is in one each.

    Every process of the split must make it, at the same time.
    """

    def __init__(self, place: Place, device: torch.device, *, everyone: dist.ProcessGroup) -> None:
        """``everyone`` is all processes of the split, over which tensors go through CPUs."""
        split = place.split
        shape = (split.num_replicas, split.num_stages, split.tensor)
        self.place = place
        self.device = device
        self.everyone = everyone
        self._axes = init_device_mesh(
            device.type, shape, mesh_dim_names=("replica", "stage", "tensor")
        )
        self._ends = self._new_ends()

    @property
    def replicas(self) -> DeviceMesh:
        """Processes at the same place of other replicas."""
        return self._axes["replica"]

    @property
    def stages(self) -> DeviceMesh:
        """Processes of the other stages of the replica."""
        return self._axes["stage"]

    @property
    def tensor(self) -> DeviceMesh:
        """Processes that hold the same layers of the replica."""
        return self._axes["tensor"]

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
        if self._ends is not None:
            _add_up(tensors, self._ends)

    def _new_ends(self) -> Any:
        """Return the group of the first and last stage, if it has this process in it."""
        if self.place.split.num_stages == 1:
            return None
        ranks = self._axes.mesh
        lines = [
            [int(ranks[replica, 0, tensor]), int(ranks[replica, -1, tensor])]
            for replica in range(ranks.shape[0])
            for tensor in range(ranks.shape[2])
        ]
        # All processes make all groups, in one order, or none.
        groups = [(line, dist.new_group(line)) for line in lines]
        return next((group for line, group in groups if self.place.rank in line), None)


def _add_up(tensors: Iterable[Tensor], group: dist.ProcessGroup) -> None:
    for tensor in tensors:
        dist.all_reduce(local(tensor), group=group)
