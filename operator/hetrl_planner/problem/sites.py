"""Sites: machines that the planner treats as equal, and their capacity for replicas.

A site is the machines of one GPU kind in one region and pool. ``placement`` chooses the machines
of a replica; here counting shows that a place exists.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from hetrl_core.fleet.snapshot import ClusterSnapshot, GpuKind, Machine
from hetrl_core.job.spec import PoolSpec, ResourcesSpec

SHARE_SIZES = (1, 2, 4, 8)
"""GPUs of one machine that a replica may take. Powers of two, so that counting suffices:
see ``Site.capacity``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Machines of one GPU kind, region and pool."""

    kind: GpuKind
    """With the pool's price where the pool states one."""

    region: str
    pool: str
    machines: tuple[Machine, ...]
    """Largest first, then by name."""

    max_gpus: int | None = None
    """The pool's limit, over all sites of the pool together."""

    @property
    def name(self) -> str:
        """Return the site in words: ``L4 in eu-1 (pool edge)``."""
        region = f" in {self.region}"
        return f"{self.kind.name}{region}" + (f" (pool {self.pool})" if self.pool else "")

    @property
    def num_gpus(self) -> int:
        """GPUs of all machines."""
        return sum(machine.num_gpus for machine in self.machines)

    @property
    def largest_machine_gpus(self) -> int:
        """GPUs of the largest machine."""
        return self.machines[0].num_gpus

    @property
    def is_uniform(self) -> bool:
        """Whether all machines have equally many GPUs."""
        return self.machines[-1].num_gpus == self.largest_machine_gpus

    def capacity(self, share_size: int) -> int:
        """Return the GPUs that lie in whole blocks of ``share_size`` on one machine.

        Shares of power-of-two sizes fit exactly when, for each size ``s``, all shares of at
        least ``s`` together need no more than ``capacity(s)`` GPUs: blocks split in halves
        without a rest, so nothing is lost to fragmentation.
        """
        return sum(machine.num_gpus // share_size * share_size for machine in self.machines)


def sites(snapshot: ClusterSnapshot, resources: ResourcesSpec) -> tuple[Site, ...]:
    """Group the machines that a job may use, in an order that machines' names do not change.

    A job that names pools uses only machines that belong to one of them.
    """
    pools = {pool.name: pool for pool in resources.pools}
    members: dict[tuple[str, str, str], list[Machine]] = defaultdict(list)
    for machine in snapshot.machines:
        pool = machine.pool if pools else ""
        if not pools or pool in pools:
            members[machine.gpu_kind, machine.region, pool].append(machine)
    return tuple(
        _site(snapshot.kind(kind), region, pools.get(pool), machines)
        for (kind, region, pool), machines in sorted(members.items())
    )


def without_machines(resources: ResourcesSpec, found: Iterable[Site]) -> list[PoolSpec]:
    """Return the pools to which no machine belongs."""
    used = {site.pool for site in found}
    return [pool for pool in resources.pools if pool.name not in used]


def _site(kind: GpuKind, region: str, pool: PoolSpec | None, machines: list[Machine]) -> Site:
    if pool and pool.dollars_per_gpu_hour is not None:
        kind = replace(kind, dollars_per_hour=pool.dollars_per_gpu_hour)
    return Site(
        kind=kind,
        region=region,
        pool=pool.name if pool else "",
        machines=tuple(sorted(machines, key=lambda each: (-each.num_gpus, each.name))),
        max_gpus=pool.max_gpus if pool else None,
    )
