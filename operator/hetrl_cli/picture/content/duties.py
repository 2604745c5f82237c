"""Tasks by GPU and machine: a plan's replicas, seen from the machines.

Ranks follow the same order as a pod set's rank table. A share that names no GPU takes the
first that are free: which ones is decided in the pod, and they are alike.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.plan.plan import Parallelism, Plan, ReplicaGroup, Share
from hetrl_core.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    """One GPU's place in one replica of one task."""

    task: Task
    replica: int
    """Counted over all replicas of the task."""

    stage: int
    tensor_rank: int
    split: Parallelism

    @property
    def num_layers(self) -> int:
        """Layers of its stage."""
        return self.split.stage_layers[self.stage]


MachineUse = tuple[tuple[Duty, ...], ...]
"""The duties of each GPU of a machine; an idle one has none."""


def uses(plan: Plan, snapshot: ClusterSnapshot) -> dict[str, MachineUse]:
    """Return what every machine of the fleet does, those that do nothing included.

    Raises:
        ValueError: the plan is for another fleet: a machine is unknown or has too few GPUs.
    """
    found: dict[str, list[list[Duty]]] = {
        machine.name: [[] for _ in range(machine.num_gpus)] for machine in snapshot.machines
    }
    # Shares that name their GPUs come first, or the others would take those.
    for share, duties in sorted(_shares(plan), key=lambda pair: pair[0].first_gpu is None):
        for gpu, of_gpu in zip(_gpus(share, found), duties, strict=True):
            found[share.machine][gpu] += of_gpu
    return {
        name: tuple(tuple(sorted(gpu, key=_order)) for gpu in gpus) for name, gpus in found.items()
    }


def stage_machines(group: ReplicaGroup) -> Iterator[tuple[str, ...]]:
    """Yield the machine of each stage, for one replica after another."""
    for replica in group.replicas:
        ranks = [share.machine for share in replica.shares for _ in range(share.num_gpus)]
        yield tuple(ranks[:: group.parallelism.tensor])


def _shares(plan: Plan) -> Iterator[tuple[Share, list[list[Duty]]]]:
    numbers = {task: count() for task in Task}
    for group in plan.groups:
        tensor = group.parallelism.tensor
        for replica in group.replicas:
            mine = [(task, next(numbers[task])) for task in group.tasks]
            ranks = count()
            for share in replica.shares:
                places = [divmod(next(ranks), tensor) for _ in range(share.num_gpus)]
                yield (
                    share,
                    [
                        [
                            Duty(
                                task=task,
                                replica=number,
                                stage=stage,
                                tensor_rank=rank,
                                split=group.parallelism,
                            )
                            for task, number in mine
                        ]
                        for stage, rank in places
                    ],
                )


def _gpus(share: Share, found: dict[str, list[list[Duty]]]) -> list[int]:
    gpus = found.get(share.machine, [])
    if share.first_gpu is None:
        free = [number for number, duties in enumerate(gpus) if not duties][: share.num_gpus]
    else:
        last = min(share.first_gpu + share.num_gpus, len(gpus))
        free = list(range(share.first_gpu, last))
    if len(free) < share.num_gpus:
        raise ValueError(
            f"the plan takes {share.num_gpus} GPUs of machine {share.machine}, "
            f"and the fleet has {len(free)} for it"
        )
    return free


def _order(duty: Duty) -> tuple[int, int]:
    return list(Task).index(duty.task), duty.replica
