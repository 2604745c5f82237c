"""Gang scheduling: gated pods start together the first time, and trainers always do.

Until every pod of the job exists, no pod holds a GPU, so that an incomplete job never keeps others
from starting.
"""

from typing import TYPE_CHECKING

from hetrl_core.plan.pod_sets import PodSet
from hetrl_core.task import Role
from hetrl_operator.decide.pods.replacements import is_lost
from hetrl_operator.model.actions import Delete, RemoveSchedulingGate
from hetrl_operator.model.observed import Observed, PodSeen
from hetrl_operator.model.pods import num_wanted, present

if TYPE_CHECKING:
    from datetime import datetime


def remove_scheduling_gates(
    seen: Observed,
    sets: tuple[PodSet, ...],
    leaving: tuple[Delete, ...],
    now: "datetime",
    *,
    holds_trainers: bool = False,
) -> tuple[RemoveSchedulingGate, ...]:
    """Return the gates to remove now, each with its pod's machine.

    Args:
        seen: the job.
        sets: its pod sets.
        leaving: pods that are replaced in this reconcile.
        now: the time, for lost nodes: no pod is sent there.
        holds_trainers: whether a restart of the gang is pending: a new trainer that starts before
            it would wait for the others without end.
    """
    gone = {each.uid for each in leaving}
    pods = {place: pod for place, pod in present(seen.pods, sets).items() if pod.uid not in gone}
    if not _may_start(pods, sets):
        return ()
    may_train = _trainers_complete(pods, sets) and not holds_trainers
    held = frozenset[Role]() if may_train else frozenset({Role.TRAINER})
    return tuple(
        RemoveSchedulingGate(pod=pod.name, uid=pod.uid, hostname=_hostname(seen, each, ordinal))
        for each in sets
        for ordinal in range(each.num_pods)
        if (pod := pods.get((each.name, ordinal)))
        and pod.is_gated
        and each.role not in held
        and not is_lost(seen, each.machines[ordinal], now)
    )


def _may_start(pods: dict[tuple[str, int], PodSeen], sets: tuple[PodSet, ...]) -> bool:
    """Return whether gated pods may start: all pods exist, or some have started before."""
    num_gated = sum(pod.is_gated for pod in pods.values())
    is_complete = len(pods) == sum(each.num_pods for each in sets)
    return num_gated > 0 and (is_complete or num_gated < len(pods))


def _trainers_complete(pods: dict[tuple[str, int], PodSeen], sets: tuple[PodSet, ...]) -> bool:
    """Tell whether all trainers and the coordinator exist."""
    there = [pod.role for pod in pods.values()]
    return all(
        there.count(role) == num_wanted(sets, role) for role in (Role.TRAINER, Role.COORDINATOR)
    )


def _hostname(seen: Observed, pods: PodSet, ordinal: int) -> str:
    """Return the hostname for an ordinal's pod if the set has several machines; else empty.

    Equal machines are not interchangeable: the number of pods on each is part of the plan, and the
    rest of a machine may belong to another set or job.
    """
    if len(set(pods.machines)) == 1:
        return ""
    machine = pods.machines[ordinal]
    return seen.hostnames.get(machine, machine)
