"""When gated pods may start: all together the first time, trainers together always.

Until every pod of the job exists nothing holds a GPU, so a job that cannot be complete
never keeps others from starting.
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
    """Return the gates to lift now, each with the machine that its pod belongs on.

    Args:
        seen: the job.
        sets: its pod sets.
        leaving: pods that are being replaced in this round.
        now: against which a node counts as lost: nothing is sent there.
        holds_trainers: whether a restart of the gang is still to be decided: a newcomer that
            starts before would be one that nobody waits for.
    """
    gone = {each.uid for each in leaving}
    pods = {place: pod for place, pod in present(seen.pods, sets).items() if pod.uid not in gone}
    if not any(pod.is_gated for pod in pods.values()):
        return ()
    complete = len(pods) == sum(each.num_pods for each in sets)
    started = any(not pod.is_gated for pod in pods.values())
    if not complete and not started:
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


def _trainers_complete(pods: dict[tuple[str, int], PodSeen], sets: tuple[PodSet, ...]) -> bool:
    """Tell whether all trainers are there, and the coordinator that they begin with."""
    there = [pod.role for pod in pods.values()]
    return all(
        there.count(role) == num_wanted(sets, role) for role in (Role.TRAINER, Role.COORDINATOR)
    )


def _hostname(seen: Observed, pods: PodSet, ordinal: int) -> str:
    """Name the machine of an ordinal where the set has several.

    They are not interchangeable even when they are alike: how many pods each takes is part
    of the plan, and the rest of a machine may belong to another set or job.
    """
    if len(set(pods.machines)) == 1:
        return ""
    machine = pods.machines[ordinal]
    return seen.hostnames.get(machine, machine)
