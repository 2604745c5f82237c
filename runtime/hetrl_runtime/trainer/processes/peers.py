"""Messages between the processes that train together: the leader's orders, and pooled values.

Rank 0 leads: it alone talks to the coordinator, and sends the others their orders and batches.
``gang`` says which models they train, and ``process_groups`` connects them; ``parallel`` says which
part of a model and of each minibatch a process has. With one process nothing is sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
import torch.distributed as dist
from torch import Tensor

from hetrl_core.launch import Launch
from hetrl_runtime.trainer.batch import Batch
from hetrl_runtime.trainer.parallel.place import Place, dealt
from hetrl_runtime.trainer.processes import tensor_messages
from hetrl_runtime.trainer.processes.gang import Gang
from hetrl_runtime.trainer.processes.process_groups import meet


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """An order of the leader to every rank: train one version, save it, or else stop."""

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
        groups = meet(launch, self.gang, place, device=device, file=meeting)
        self.mesh = groups.mesh if groups else None
        self._control: Any = groups.control if groups else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._control:
            dist.destroy_process_group()

    def shares(self, rows: Tensor) -> list[Tensor]:
        """Return every replica's part of a minibatch's rows."""
        return dealt(rows, self.place.split.shares)

    def pooled(self, said: Tensor) -> Tensor:
        """Return the sum of all processes' values, with one of each stage's tensor ranks.

        ``said`` is on the CPU, and is not changed.
        """
        found = said.clone() if self.place.speaks else torch.zeros_like(said)
        if self._control:
            dist.all_reduce(found)
        return found

    def any_of(self, flags: Tensor) -> Tensor:
        """Return which flags any process of any model raises; all get the same answer."""
        found = flags.to(torch.uint8)
        if self._control:
            dist.all_reduce(found, op=dist.ReduceOp.MAX)
        return found.bool()

    def to_leader(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return to the leader what the model that it has no part of put together, else nothing.

        Every process must call it; where there is one model, each gets its own back.
        """
        return self._carried(tensors, comes_from_leader=False)

    def from_leader(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return what the leader has to the one that leads the other model, else nothing.

        Every process must call it; where there is one model, each gets its own back.
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
            tensor_messages.send(tensors, to=receiver, group=self._control)
        elif self.rank == receiver:
            return tensor_messages.receive(source=sender, group=self._control)
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
