"""The processes that train together: who leads, what the others are told, and what all say.

Rank 0 leads: it alone talks to the coordinator, and tells the others what to do and on which
batch. Which models they train is ``gang``'s; which part of a model and of each minibatch a process
has, ``parallel``'s. With one process nothing is sent.
"""

from collections.abc import Iterable, Mapping
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
from hetrl_core.training_split import TrainingSplit
from hetrl_runtime.trainer import parcels
from hetrl_runtime.trainer.batch import Batch
from hetrl_runtime.trainer.gang import Gang
from hetrl_runtime.trainer.parallel.mesh import Mesh, stand_by
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
        gang: Gang | None = None,
        meeting: Path | None = None,
    ) -> None:
        """Meet the others, within the start-up deadline.

        Args:
            launch: where trainers meet.
            place: ours among those of our model.
            device: what we compute on.
            gang: all models that are trained in step; None: ours alone.
            meeting: a file in which to meet instead, for processes of one pod.

        Raises:
            RuntimeError: they did not all come.
        """
        self.place = place
        self.gang = gang or Gang(splits=(place.split,))
        self.rank = self.gang.first_rank + place.rank
        self.mesh: Mesh | None = None
        self._control: Any = None
        if self.gang.num_ranks == 1:
            return
        if device.type == "cuda":
            # Else process groups would guess it, from a rank among all pods' processes.
            torch.cuda.set_device(device)
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
            store=self._store(launch, meeting),
            rank=self.rank,
            world_size=self.gang.num_ranks,
            timeout=_GRADIENT_DEADLINE,
        )
        self._control = dist.new_group(backend="gloo", timeout=_ORDER_DEADLINE)
        self.mesh = self._our_mesh(device)

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

    def pooled(self, said: Tensor) -> Tensor:
        """Return the sum of what all processes say; of a stage's tensor ranks, one is heard.

        ``said`` is on the CPU, and stays as it is.
        """
        found = said.clone() if self.place.speaks else torch.zeros_like(said)
        self.add_up([found])
        return found

    def to_leader(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return to the leader what the model that it has no part of put together, else nothing.

        Every process must ask; where there is one model, each gets its own back.
        """
        return self._carried(tensors, comes_from_leader=False)

    def from_leader(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return what the leader has to the one that leads the other model, else nothing.

        Every process must ask; where there is one model, each gets its own back.
        """
        return self._carried(tensors, comes_from_leader=True)

    def _carried(
        self, tensors: Mapping[str, Tensor], *, comes_from_leader: bool
    ) -> Mapping[str, Tensor]:
        if not self.gang.is_apart:
            return tensors
        ends = self.gang.first_ranks
        sender, receiver = ends if comes_from_leader else reversed(ends)
        if self.rank == sender:
            parcels.send(tensors, to=receiver, group=self._control)
        elif self.rank == receiver:
            return parcels.receive(source=sender, group=self._control)
        return {}

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

    def _our_mesh(self, device: torch.device) -> Mesh:
        """Return the groups of our model; processes of all models make those of all."""
        found: Mesh | None = None
        for number, split in enumerate(self.gang.splits):
            first = self.gang.first_ranks[number]
            if number != self.gang.number:
                _everyone(first, split)
                stand_by(split, device, first_rank=first)
                continue
            everyone = _everyone(first, split) if self.gang.is_apart else self._control
            found = Mesh(self.place, device, everyone=everyone, first_rank=first)
        assert found
        return found

    def _store(self, launch: Launch, meeting: Path | None) -> Store:
        deadline = timedelta(seconds=launch.startup_deadline_seconds)
        if meeting:
            found = FileStore(str(meeting), self.gang.num_ranks)
            found.set_timeout(deadline)
            return found
        return TCPStore(
            launch.rendezvous.host,
            launch.rendezvous.port,
            world_size=self.gang.num_ranks,
            is_master=self.rank == 0,
            timeout=deadline,
        )


def _everyone(first_rank: int, split: TrainingSplit) -> Any:
    """Return a group of all processes of one model, for tensors on CPUs."""
    ranks = list(range(first_rank, first_rank + split.num_ranks))
    return dist.new_group(ranks, backend="gloo", timeout=_ORDER_DEADLINE)
