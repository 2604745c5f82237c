"""Pod sets of a plan: their machines, and the tasks of each pod's GPUs.

A pod set becomes one StatefulSet, or as many local processes. Manifests, addresses and files are
left to the operator and ``hetrl run``.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count

from hetrl_core.plan.plan import Plan, ReplicaGroup
from hetrl_core.task import Role, Task, asked_of_workers, programs_of, role_of

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

    kv_cache_bytes: int = 0
    """On each GPU, for what it generates, where other programs need the rest; 0: all there is."""

    @property
    def num_pods(self) -> int:
        """Pods of the set."""
        return len(self.machines)

    @property
    def programs(self) -> tuple[Role, ...]:
        """What runs in each of its pods, the pod's own role first."""
        return programs_of(self.tasks) or (self.role,)

    @property
    def generates(self) -> bool:
        """Whether a rollout worker is in each of its pods, be it beside a trainer."""
        return Role.ROLLOUT in self.programs

    @property
    def tasks(self) -> frozenset[Task]:
        """What its pods do."""
        return frozenset(rank.task for rank in self.ranks)


def pod_sets(plan: Plan) -> tuple[PodSet, ...]:
    """Return the pod sets of a plan, the coordinator's first, in a stable order."""
    sets = [PodSet(name=COORDINATOR, role=Role.COORDINATOR, machines=("",))]
    next_replica = {task: count() for task in Task}
    numbers: dict[str, int] = {}
    for group in plan.groups:
        role = role_of(group.tasks)
        for (kind, region, num_gpus), pods in _pods(group, next_replica).items():
            stem = f"{role}-{slug(kind)}"
            number = numbers.get(stem, 0)
            numbers[stem] = number + 1
            sets.append(
                PodSet(
                    name=f"{stem}-{number}",
                    role=role,
                    gpu_kind=kind,
                    region=region,
                    gpus_per_pod=num_gpus,
                    machines=tuple(pods.machines),
                    ranks=tuple(pods.ranks),
                    concurrency=group.concurrency,
                    kv_cache_bytes=_kv_cache_bytes(group),
                )
            )
    return tuple(sets)


def weights_cross_regions(pods: PodSet, sets: Iterable[PodSet]) -> bool:
    """Tell whether a set's weights reach it from another region: from the first trainer's."""
    trainer = next((each for each in sets if Task.ACTOR_TRAINING in each.tasks), pods)
    return pods.generates and pods.region != trainer.region


def inference_tasks(sets: Iterable[PodSet]) -> tuple[Task, ...]:
    """Return what is asked of inference workers, in the order in which an iteration comes to it."""
    asked = {task for each in sets for task in asked_of_workers(each.tasks)}
    return tuple(task for task in Task if task in asked)


def slug(name: str) -> str:
    """Turn a GPU kind or region into what a DNS label may hold: ``A100-80GB`` -> ``a100-80gb``."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _kv_cache_bytes(group: ReplicaGroup) -> int:
    is_shared = len(programs_of(group.tasks)) > 1
    return group.memory.kv_cache_bytes if is_shared and Task.ACTOR_GENERATION in group.tasks else 0


@dataclass(slots=True)
class _Pods:
    """Pods that are alike, as they come up."""

    machines: list[str] = field(default_factory=list)
    ranks: list[Rank] = field(default_factory=list)


def _pods(
    group: ReplicaGroup, next_replica: dict[Task, "count[int]"]
) -> dict[tuple[str, str, int], _Pods]:
    """Return a group's pods by GPU kind, region and GPUs of each: a share is a pod."""
    found: dict[tuple[str, str, int], _Pods] = {}
    tensor = group.parallelism.tensor
    for replica in group.replicas:
        numbers = {task: next(next_replica[task]) for task in group.tasks}
        first = 0
        for share in replica.shares:
            kind, region = group.site(first // tensor)
            pods = found.setdefault((kind, region, share.num_gpus), _Pods())
            pods.ranks += [
                Rank(
                    ordinal=len(pods.machines),
                    local_gpu=gpu,
                    task=task,
                    replica=number,
                    stage=(first + gpu) // tensor,
                    tensor_rank=(first + gpu) % tensor,
                )
                for task, number in numbers.items()
                for gpu in range(share.num_gpus)
            ]
            pods.machines.append(share.machine)
            first += share.num_gpus
    return found
