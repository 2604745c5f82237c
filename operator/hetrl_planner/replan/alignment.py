"""Exchange of a plan's machines for equal ones, so that most pods stay in place.

A search chooses among equal machines by their names. For a running job they are not equal: some
have its pods.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from hetrl_core.fleet.snapshot import ClusterSnapshot, Machine
from hetrl_core.plan.plan import Plan
from hetrl_core.plan.pod_sets import pod_sets


def aligned(plan: Plan, current: Plan, snapshot: ClusterSnapshot) -> Plan:
    """Return the same plan on machines that keep many of the current plan's pods in their places.

    Only machines of one kind, region, zone, pool and number of free GPUs are exchanged, so that the
    plan is as good as it was. The exchange that keeps most pods is made first, and so on.
    """
    likeness = {each.name: _likeness(each) for each in snapshot.machines}
    stays = Counter(_shared_places(plan, current))
    instead: dict[str, str] = {}
    for (new, old), _ in sorted(stays.items(), key=lambda each: (-each[1], each[0])):
        is_alike = old in likeness and likeness[new] == likeness[old]
        if is_alike and new not in instead and old not in instead.values():
            instead[new] = old
    return _moved(plan, _closed(instead))


def _closed(instead: Mapping[str, str]) -> dict[str, str]:
    """Complete the exchange to a permutation: displaced machines fill the places left."""
    places = dict(instead)
    for start in instead.keys() - set(instead.values()):
        end = start
        while end in instead:
            end = instead[end]
        places[end] = start
    return places


def _shared_places(plan: Plan, current: Plan) -> list[tuple[str, str]]:
    """Return the machines in both plans of each pod that both have."""
    there = {
        (pods.name, ordinal): machine
        for pods in pod_sets(current)
        for ordinal, machine in enumerate(pods.machines)
    }
    return [
        (machine, there[pods.name, ordinal])
        for pods in pod_sets(plan)
        for ordinal, machine in enumerate(pods.machines)
        if machine and (pods.name, ordinal) in there
    ]


def _likeness(machine: Machine) -> tuple[object, ...]:
    return tuple(
        getattr(machine, field) for field in ("gpu_kind", "num_gpus", "region", "zone", "pool")
    )


def _moved(plan: Plan, instead: dict[str, str]) -> Plan:
    groups = (
        replace(
            group,
            replicas=tuple(
                replace(
                    replica,
                    shares=tuple(
                        replace(share, machine=instead.get(share.machine, share.machine))
                        for share in replica.shares
                    ),
                )
                for replica in group.replicas
            ),
        )
        for group in plan.groups
    )
    return replace(plan, groups=tuple(groups))
