"""The process groups of a gang, formed once at the start.

``rendezvous`` connects the processes of several pods; ``peers`` and ``parallel`` use the groups.
"""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore, Store

from hetrl_core.launch import Launch
from hetrl_core.plan.training_split import TrainingSplit
from hetrl_runtime.trainer.parallel.mesh import Mesh, stand_by
from hetrl_runtime.trainer.parallel.place import Place
from hetrl_runtime.trainer.processes import rendezvous
from hetrl_runtime.trainer.processes.gang import Gang

_GRADIENT_DEADLINE = timedelta(minutes=10)
_ORDER_DEADLINE = timedelta(days=7)
"""Followers wait for orders as long as the leader waits for data. A leader that dies closes
its connections, which they notice at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """The process groups of processes that have met."""

    control: Any
    """All processes, over CPUs, for as long as a wait for orders may be."""

    mesh: Mesh
    """Those of our model."""


def meet(
    launch: Launch, gang: Gang, place: Place, *, device: torch.device, file: Path | None
) -> Groups | None:
    """Meet the others, within the start-up deadline; None: there are none.

    ``file`` is where processes of one pod meet; else they meet where the contract says.

    Raises:
        RuntimeError: they did not all come.
    """
    if gang.num_ranks == 1:
        return None
    if device.type == "cuda":
        # Else process groups would guess it, from a rank among all pods' processes.
        torch.cuda.set_device(device)
    rank = gang.first_rank + place.rank
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
        store=_store(launch, gang, file, rank=rank),
        rank=rank,
        world_size=gang.num_ranks,
        timeout=_GRADIENT_DEADLINE,
    )
    control: Any = dist.new_group(backend="gloo", timeout=_ORDER_DEADLINE)
    return Groups(control=control, mesh=_our_mesh(gang, place, device, control))


def _our_mesh(gang: Gang, place: Place, device: torch.device, control: Any) -> Mesh:
    """Return the groups of our model; processes of all models make those of all."""
    found: Mesh | None = None
    for number, (first, split) in enumerate(zip(gang.first_ranks, gang.splits, strict=True)):
        everyone = _everyone(first, split) if gang.is_apart else control
        if number == gang.number:
            found = Mesh(place, device, everyone=everyone, first_rank=first)
        else:
            stand_by(split, device, first_rank=first)
    assert found
    return found


def _everyone(first_rank: int, split: TrainingSplit) -> Any:
    """Return a group of all processes of one model, for tensors on CPUs."""
    ranks = list(range(first_rank, first_rank + split.num_ranks))
    return dist.new_group(ranks, backend="gloo", timeout=_ORDER_DEADLINE)


def _store(launch: Launch, gang: Gang, file: Path | None, *, rank: int) -> Store:
    seconds = launch.startup_deadline_seconds
    if file:
        found = FileStore(str(file), gang.num_ranks)
        found.set_timeout(timedelta(seconds=seconds))
        return found
    if rank == 0:
        return rendezvous.host(
            launch.rendezvous, num_ranks=gang.num_ranks, deadline_seconds=seconds
        )
    return rendezvous.join(launch.rendezvous, rank=rank, deadline_seconds=seconds)
