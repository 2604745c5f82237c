"""Real processes that train one model together over gloo, for tests."""

import multiprocessing
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import product
from multiprocessing.pool import Pool
from typing import Any

import torch
import torch.distributed as dist

from hetrl_core.job.spec import ModelFiles
from hetrl_core.plan.training_split import TrainingSplit
from hetrl_runtime.trainer.parallel.mesh import Mesh
from hetrl_runtime.trainer.parallel.place import Place
from tests.runtime.trainer.exact import multiply_exactly

CPU = torch.device("cpu")
NUM_PROCESSES = 4
_DEADLINE_SECONDS = 60
_PRELOADED = ["hetrl_runtime.trainer.learner", "torch.distributed.fsdp", "transformers.models"]


@dataclass(frozen=True)
class Member:
    """What one process of a split is given."""

    place: Place
    port: int
    files: ModelFiles


class Crew:
    """Processes that wait for work; use it as a context manager."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(_PRELOADED)
        self._pool: Pool = context.Pool(
            NUM_PROCESSES, initializer=multiply_exactly, maxtasksperchild=1
        )

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.terminate()
        self._pool.join()

    def run(
        self, work: Callable[..., Any], split: TrainingSplit, files: ModelFiles, *more: Any
    ) -> list[Any]:
        """Do ``work(mesh, files, *more)`` in every process of a split; return what each returns."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        replicas, stages, tensor = split.num_replicas, split.num_stages, split.tensor
        members = [
            Member(
                place=Place(split=split, replica=replica, stage=stage, tensor_rank=rank),
                port=port,
                files=files,
            )
            for replica, stage, rank in product(range(replicas), range(stages), range(tensor))
        ]
        return self.do(_one, [(work, member, more) for member in members])

    def do(self, work: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call ``work`` once with each of the arguments, in a process each."""
        return self._pool.starmap_async(work, arguments, 1).get(_DEADLINE_SECONDS)


def _one(work: Callable[..., Any], member: Member, more: tuple[Any, ...]) -> Any:
    torch.set_num_threads(1)
    place = member.place
    if place.split.num_ranks == 1:
        return work(None, member.files, *more)
    deadline = timedelta(seconds=_DEADLINE_SECONDS)
    store = dist.TCPStore(
        "127.0.0.1", member.port, place.split.num_ranks, is_master=place.rank == 0, timeout=deadline
    )
    dist.init_process_group(
        "gloo", store=store, rank=place.rank, world_size=place.split.num_ranks, timeout=deadline
    )
    try:
        return work(Mesh(place, CPU, everyone=dist.group.WORLD), member.files, *more)
    finally:
        dist.destroy_process_group()
