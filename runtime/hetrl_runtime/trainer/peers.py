"""The training replicas of a run: one process each, with the same weights in all of them.

Rank 0 leads: it alone talks to the coordinator, and tells the others what to do and on which
batch. Gradients are added up over all ranks, so every rank makes the same step. With one
replica nothing is sent.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import TCPStore

from hetrl_core.launch import Launch
from hetrl_runtime.trainer.batch import Batch

_GRADIENT_DEADLINE = timedelta(minutes=10)
_ORDER_DEADLINE = timedelta(days=7)
"""Followers wait for orders as long as the leader waits for data. A leader that dies closes
its connections, which they notice at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the leader wants of every rank: to train one version, or, without a batch, to stop."""

    version: int
    batch: Batch | None


class Peers:
    """This process's place among the training replicas; use it as a context manager."""

    def __init__(self, launch: Launch, *, rank: int, device: torch.device) -> None:
        """Meet the others, within the start-up deadline.

        Raises:
            RuntimeError: they did not all come.
        """
        self.rank = rank
        self.size = launch.num_training_replicas
        self._control: Any = None
        if self.size == 1:
            return
        store = TCPStore(
            launch.rendezvous.host,
            launch.rendezvous.port,
            world_size=self.size,
            is_master=rank == 0,
            timeout=timedelta(seconds=launch.startup_deadline_seconds),
        )
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
            store=store,
            rank=rank,
            world_size=self.size,
            timeout=_GRADIENT_DEADLINE,
        )
        self._control = dist.new_group(backend="gloo", timeout=_ORDER_DEADLINE)

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

    def share(self, rows: Tensor) -> Tensor:
        """Return this rank's part of a minibatch's rows."""
        return rows[self.rank :: self.size]

    def add_up(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its sum over all ranks."""
        if self._control:
            for tensor in tensors:
                dist.all_reduce(tensor)

    def add_up_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace each gradient by its sum over all ranks; one that is missing counts as zero."""
        if self._control:
            for parameter in parameters:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                dist.all_reduce(parameter.grad)

    def copy_from_leader(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite each tensor with the leader's."""
        if self._control:
            for tensor in tensors:
                dist.broadcast(tensor, src=0)

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
        self._broadcast(torch.tensor([order.version, *shape]))
        if batch:
            for tensor in batch.tensors():
                self._broadcast(tensor)

    def await_order(self) -> Order:
        """Wait for what the leader wants; for everyone else."""
        header = torch.empty(4, dtype=torch.int64)
        self._broadcast(header)
        version, num_rows, num_positions, num_response = header.tolist()
        if not num_rows:
            return Order(version=version, batch=None)
        batch = Batch.empty(num_rows, num_positions, num_response)
        for tensor in batch.tensors():
            self._broadcast(tensor)
        return Order(version=version, batch=batch)

    def _broadcast(self, tensor: Tensor) -> None:
        dist.broadcast(tensor, src=0, group=self._control)
