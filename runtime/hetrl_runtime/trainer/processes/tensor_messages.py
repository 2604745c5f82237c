"""Named tensors sent from one process to another, whole, without pickle: names first, then each."""

import json
from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch import Tensor


def send(tensors: Mapping[str, Tensor], *, to: int, group: dist.ProcessGroup) -> None:
    """Send tensors, which are on the CPU, to a rank of ``group``, which must receive them."""
    listed = [
        (name, str(each.dtype).removeprefix("torch."), tuple(each.shape))
        for name, each in tensors.items()
    ]
    header = torch.frombuffer(bytearray(json.dumps(listed).encode()), dtype=torch.uint8)
    dist.send(torch.tensor([len(header)]), group=group, group_dst=to)
    dist.send(header, group=group, group_dst=to)
    for each in tensors.values():
        dist.send(each.contiguous(), group=group, group_dst=to)


def receive(*, source: int, group: dist.ProcessGroup) -> dict[str, Tensor]:
    """Return what a rank of ``group`` sends."""
    length = torch.empty(1, dtype=torch.int64)
    dist.recv(length, group=group, group_src=source)
    header = torch.empty(int(length), dtype=torch.uint8)
    dist.recv(header, group=group, group_src=source)
    found = {}
    for name, dtype, shape in json.loads(header.numpy().tobytes()):
        found[name] = torch.empty(shape, dtype=getattr(torch, dtype))
        dist.recv(found[name], group=group, group_src=source)
    return found
