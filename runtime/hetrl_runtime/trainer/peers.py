"""The processes that train one policy together: who leads, and what the others are told.

Rank 0 leads: it alone talks to the coordinator, and tells the others what to do and on which
batch. Which part of the model and of each minibatch a process has is ``parallel``'s. With one
process nothing is sent.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import FileStore, Store, TCPStore

from hetrl_core.launch import Launch
from hetrl_runtime.trainer.batch import Batch
from hetrl_runtime.trainer.parallel.mesh import Mesh
from hetrl_runtime.trainer.parallel.place import Place, dealt

_GRADIENT_DEADLINE = timedelta(minutes=10)
_ORDER_DEADLINE = timedelta(days=7)
"""Followers wait for orders as long as the leader waits for data. A leader that dies closes
its connections, which they notice at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the leader wants of every rank: to train one version, to save it, or else to stop."""

    version: int
    batch: Batch | None = None
    saves: bool = False


class Peers:
    """This process's place among those that train; use it as a context manager."""

    def __init__(
        self,
        launch: Launch,
        *,
        place: Place,
        device: torch.device,
        meeting: Path | None = None,
    ) -> None:
        """Meet the others, within the start-up deadline.

        Args:
            launch: where trainers meet.
            place: ours among them.
            device: what we compute on.
            meeting: a file in which to meet instead, for processes of one pod.

        Raises:
            RuntimeError: they did not all come.
        """
        self.place = place
        self.rank = place.rank
        self.mesh: Mesh | None = None
        self._control: Any = None
        if place.split.num_ranks == 1:
            return
        if device.type == "cuda":
            # Else process groups would guess it, from a rank among all pods' processes.
            torch.cuda.set_device(device)
        store = _store(launch, place, meeting)
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
            store=store,
            rank=self.rank,
            world_size=place.split.num_ranks,
            timeout=_GRADIENT_DEADLINE,
        )
        self._control = dist.new_group(backend="gloo", timeout=_ORDER_DEADLINE)
        self.mesh = Mesh(place, device, everyone=self._control)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._control:
            dist.destroy_process_group()

    def shares(self, rows: Tensor) -> list[Tensor]:
        """Return every replica's part of a minibatch's rows."""
        return dealt(rows, self.place.split.shares)

    def add_up(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its sum over all processes."""
        if self._control:
            for tensor in tensors:
                dist.all_reduce(tensor)

    def give(self, order: Order) -> None:
        """Tell every other rank what to do; for the leader."""
        if not self._control:
            return
        batch = order.batch
        shape = (
            (len(batch), batch.tokens_BT.shape[1], batch.num_response_positions)
            if batch
            else (0, 0, 0)
        )
        self._broadcast(torch.tensor([order.version, order.saves, *shape]))
        if batch:
            for tensor in batch.tensors():
                self._broadcast(tensor)

    def await_order(self) -> Order:
        """Wait for what the leader wants; for everyone else."""
        header = torch.empty(5, dtype=torch.int64)
        self._broadcast(header)
        version, saves, num_rows, num_positions, num_response = header.tolist()
        if not num_rows:
            return Order(version=version, saves=bool(saves))
        batch = Batch.empty(num_rows, num_positions, num_response)
        for tensor in batch.tensors():
            self._broadcast(tensor)
        return Order(version=version, batch=batch)

    def _broadcast(self, tensor: Tensor) -> None:
        dist.broadcast(tensor, src=0, group=self._control)


def _store(launch: Launch, place: Place, meeting: Path | None) -> Store:
    deadline = timedelta(seconds=launch.startup_deadline_seconds)
    if meeting:
        found = FileStore(str(meeting), place.split.num_ranks)
        found.set_timeout(deadline)
        return found
    return TCPStore(
        launch.rendezvous.host,
        launch.rendezvous.port,
        world_size=place.split.num_ranks,
        is_master=place.rank == 0,
        timeout=deadline,
    )
