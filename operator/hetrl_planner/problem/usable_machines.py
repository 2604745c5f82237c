"""Machines that a job of few GPUs can use; the others are removed before any search.

A fleet of hundreds of machines is then no harder for a job of four GPUs than a fleet of one, and
many fleets give it one problem. Searches decide how to use the remaining machines.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from hetrl_core.fleet.snapshot import ClusterSnapshot, Machine
from hetrl_core.job.spec import PoolSpec, ResourcesSpec


def usable_machines(snapshot: ClusterSnapshot, resources: ResourcesSpec) -> ClusterSnapshot:
    """Return the machines among which a job's best plan lies.

    Machines of one kind, region and pool differ in their GPUs alone. Where one of them holds all
    that the job may take there, every plan on several of them has a counterpart on that one, which
    costs as much and sends less over the network: shares are powers of two, and fit any machine
    that has as many GPUs in all (``Site.capacity``). Elsewhere a plan is on no more machines of
    one size than it has GPUs. A job without a limit can use every machine.
    """
    if resources.max_gpus is None and all(each.max_gpus is None for each in resources.pools):
        return snapshot
    pools = {pool.name: pool for pool in resources.pools}
    alike: dict[tuple[str, str, str], list[Machine]] = defaultdict(list)
    for machine in snapshot.machines:
        alike[machine.gpu_kind, machine.region, machine.pool].append(machine)
    kept = [
        each
        for (_, _, pool), machines in sorted(alike.items())
        for each in _of_use(machines, _most_gpus(resources, pools.get(pool)))
    ]
    return replace(snapshot, machines=tuple(kept))


def _of_use(machines: list[Machine], most_gpus: int | None) -> Iterable[Machine]:
    machines = sorted(machines, key=lambda each: (each.num_gpus, each.name))
    if most_gpus is None:
        return machines
    # The smallest that is large enough: large machines stay whole for large jobs.
    whole = next((each for each in machines if each.num_gpus >= most_gpus), None)
    if whole:
        return [replace(whole, num_gpus=most_gpus)]
    by_size: dict[int, list[Machine]] = defaultdict(list)
    for each in machines:
        by_size[each.num_gpus].append(each)
    return [each for same in by_size.values() for each in same[:most_gpus]]


def _most_gpus(resources: ResourcesSpec, pool: PoolSpec | None) -> int | None:
    limits = (resources.max_gpus, pool.max_gpus if pool else None)
    return min((each for each in limits if each is not None), default=None)
