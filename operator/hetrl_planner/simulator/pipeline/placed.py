"""The groups of a plan on their GPUs: turns on shared GPUs, and prices.

``compile`` computes their work and speeds.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import fsum

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import ResourcesSpec
from hetrl_core.plan.plan import Plan, Replica, ReplicaGroup
from hetrl_core.task import TRAINING_TASKS, Task

Gpu = tuple[str, int]
"""Machine and number; GPUs that no other group uses get numbers of their own."""

_UNNUMBERED = 1_000_000
"""Beyond every GPU that is numbered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedGroup:
    """A group of the plan, its GPUs, and the name of those that several tasks take turns on."""

    group: ReplicaGroup
    gpus: frozenset[Gpu]
    shared: str

    @property
    def scored_by(self) -> tuple[Task, ...]:
        """The inference tasks."""
        apart = {Task.ACTOR_GENERATION, *TRAINING_TASKS}
        return tuple(task for task in self.group.tasks if task not in apart)

    @property
    def trained_by(self) -> tuple[Task, ...]:
        """The training tasks."""
        return tuple(task for task in self.group.tasks if task in TRAINING_TASKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlace:
    """One stage of a replica: its layers, and where it stands."""

    machine: str
    gpu_kind: str
    region: str
    layers: range


def stages_of(group: ReplicaGroup, replica: Replica) -> list[StagePlace]:
    """Return the stages of a replica; shares are in rank order, and no stage leaves a machine."""
    ranks = [share.machine for share in replica.shares for _ in range(share.num_gpus)]
    layers = group.parallelism.stage_layers
    sites = group.stage_sites or ((group.gpu_kind, group.region),) * len(layers)
    ends = list(accumulate(layers))
    return [
        StagePlace(machine=machine, gpu_kind=kind, region=region, layers=range(end - count, end))
        for machine, (kind, region), count, end in zip(
            ranks[:: group.parallelism.tensor], sites, layers, ends, strict=True
        )
    ]


class Prices:
    """Prices of GPUs, each charged once to the first group that uses it."""

    def __init__(self, resources: ResourcesSpec, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._machines = {machine.name: machine for machine in snapshot.machines}
        self._of_pools = {
            pool.name: pool.dollars_per_gpu_hour
            for pool in resources.pools
            if pool.dollars_per_gpu_hour is not None
        }
        self._charged: set[Gpu] = set()

    def charge(self, placed: Iterable[PlacedGroup]) -> float:
        """Return the dollars per hour of groups' GPUs that were not charged before."""
        uncharged = frozenset[Gpu]().union(*(each.gpus for each in placed)) - self._charged
        self._charged |= uncharged
        # Sets have no order: added one by one, the last digit would change from run to run.
        return fsum(self._dollars_per_hour(machine) for machine, _ in uncharged)

    def _dollars_per_hour(self, name: str) -> float:
        """Return the price of one GPU of a machine; a pool's own goes before the listed one."""
        machine = self._machines[name]
        listed = self._snapshot.kind(machine.gpu_kind).dollars_per_hour
        return self._of_pools.get(machine.pool, listed)


def place(plan: Plan, snapshot: ClusterSnapshot) -> list[PlacedGroup]:
    """Return the groups of a plan, in its order.

    Raises:
        ValueError: the plan names a machine that is not in the fleet.
    """
    machines = {machine.name for machine in snapshot.machines}
    owned = []
    number = _UNNUMBERED
    for group in plan.groups:
        gpus: set[Gpu] = set()
        for share in (share for replica in group.replicas for share in replica.shares):
            if share.machine not in machines:
                raise ValueError(f"machine {share.machine} of the plan is not in the fleet")
            first = number if share.first_gpu is None else share.first_gpu
            gpus |= {(share.machine, first + offset) for offset in range(share.num_gpus)}
            number += share.num_gpus
        owned.append(frozenset(gpus))
    return [
        PlacedGroup(group=group, gpus=gpus, shared=name)
        for group, gpus, name in zip(plan.groups, owned, _shared_names(plan, owned), strict=True)
    ]


def _shared_names(plan: Plan, owned: Sequence[frozenset[Gpu]]) -> list[str]:
    """Name the GPUs on which tasks take turns, group by group; empty where only one task runs.

    Groups belong together that share GPUs or are replicas of one task, directly or through
    others: a task waits for all of its GPUs.
    """
    joined = [{number} for number, _ in enumerate(owned)]
    for first, gpus in enumerate(owned):
        for second in range(first):
            if gpus & owned[second] or set(plan.groups[first].tasks) & set(
                plan.groups[second].tasks
            ):
                together = joined[first] | joined[second]
                for each in together:
                    joined[each] = together
    return [
        f"GPUs {min(each)}"
        if len({task for number in each for task in plan.groups[number].tasks}) > 1
        else ""
        for each in joined
    ]
