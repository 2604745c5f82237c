"""Which pods follow from a plan: pod sets, their places, and who does what in each.

A pod set becomes one StatefulSet, or as many local processes. Manifests, addresses and
files are left to those who start them.
"""

import re
from dataclasses import dataclass
from itertools import count

from hetrl_core.plan import Plan, Replica, ReplicaGroup
from hetrl_core.task import Role, Task

COORDINATOR = "coordinator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One GPU's place in a task: the row of the rank table that its process reads."""

    ordinal: int
    """The pod's number in its pod set."""

    local_gpu: int
    task: Task
    replica: int
    """Counted over all pod sets of the task; the data-parallel rank when training."""

    stage: int
    tensor_rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """Pods that are alike but for their place: one StatefulSet."""

    name: str
    """Unique within the job: ``rollout-l4-0``."""

    role: Role
    gpu_kind: str = ""
    """Empty for the coordinator, which needs no GPU."""

    region: str = ""
    gpus_per_pod: int = 0
    machines: tuple[str, ...]
    """Where each ordinal runs; an empty name leaves the choice to the scheduler."""

    ranks: tuple[Rank, ...] = ()
    concurrency: int = 0
    """Trajectories that one pod generates at once."""

    @property
    def num_pods(self) -> int:
        """Pods of the set."""
        return len(self.machines)


def pod_sets(plan: Plan) -> tuple[PodSet, ...]:
    """Return the pod sets of a plan, the coordinator's first, in a stable order."""
    sets = [PodSet(name=COORDINATOR, role=Role.COORDINATOR, machines=("",))]
    next_replica = {task: count() for task in Task}
    numbers: dict[str, int] = {}
    for group in plan.groups:
        role = Role.TRAINER if Task.ACTOR_TRAINING in group.tasks else Role.ROLLOUT
        stem = f"{role}-{slug(group.gpu_kind)}"
        number = numbers.get(stem, 0)
        numbers[stem] = number + 1
        sets.append(_pod_set(group, role, name=f"{stem}-{number}", next_replica=next_replica))
    return tuple(sets)


def slug(name: str) -> str:
    """Turn a GPU kind or region into what a DNS label may hold: ``A100-80GB`` -> ``a100-80gb``."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _pod_set(
    group: ReplicaGroup, role: Role, *, name: str, next_replica: dict[Task, "count[int]"]
) -> PodSet:
    ranks: list[Rank] = []
    machines: list[str] = []
    for replica in group.replicas:
        numbers = {task: next(next_replica[task]) for task in group.tasks}
        for task, number in numbers.items():
            ranks += _ranks(group, replica, task=task, number=number, first=len(machines))
        machines += [share.machine for share in replica.shares]
    return PodSet(
        name=name,
        role=role,
        gpu_kind=group.gpu_kind,
        region=group.region,
        gpus_per_pod=group.replicas[0].shares[0].num_gpus,
        machines=tuple(machines),
        ranks=tuple(ranks),
        concurrency=group.concurrency,
    )


def _ranks(
    group: ReplicaGroup, replica: Replica, *, task: Task, number: int, first: int
) -> list[Rank]:
    places = [
        (first + offset, gpu)
        for offset, share in enumerate(replica.shares)
        for gpu in range(share.num_gpus)
    ]
    tensor = group.parallelism.tensor
    return [
        Rank(
            ordinal=ordinal,
            local_gpu=gpu,
            task=task,
            replica=number,
            stage=index // tensor,
            tensor_rank=index % tensor,
        )
        for index, (ordinal, gpu) in enumerate(places)
    ]
