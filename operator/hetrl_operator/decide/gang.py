"""When gated pods may start: all together the first time, trainers together always.

Until every pod of the job exists nothing holds a GPU, so a job that cannot be complete
never keeps others from starting.
"""

from hetrl_core.podset import PodSet
from hetrl_core.task import Role
from hetrl_operator.actions import Delete, LiftGate
from hetrl_operator.decide.pods import present
from hetrl_operator.observed import Observed, PodSeen


def lifts(seen: Observed, sets: tuple[PodSet, ...]) -> tuple[LiftGate, ...]:
    """Return the gates to lift now, each with the machine that its pod belongs on."""
    pods = present(seen.pods, sets)
    if not any(pod.is_gated for pod in pods.values()):
        return ()
    complete = len(pods) == sum(each.num_pods for each in sets)
    started = any(not pod.is_gated for pod in pods.values())
    if not complete and not started:
        return ()
    held = frozenset[Role]() if _trainers_complete(seen, sets) else frozenset({Role.TRAINER})
    return tuple(
        LiftGate(pod=pod.name, uid=pod.uid, hostname=_hostname(seen, each, ordinal))
        for each in sets
        for ordinal in range(each.num_pods)
        if (pod := pods.get((each.name, ordinal))) and pod.is_gated and each.role not in held
    )


def trainer_restarts(seen: Observed, sets: tuple[PodSet, ...]) -> tuple[Delete, ...]:
    """Return the trainer pods to replace because one of their gang was lost.

    Data-parallel trainers meet once; a newcomer cannot join the others, and they cannot go
    on without it. A single trainer needs nobody: its container restarts in place.
    """
    trainers = [
        pod for (name, _), pod in present(seen.pods, sets).items() if pod.role is Role.TRAINER
    ]
    if sum(each.num_pods for each in sets if each.role is Role.TRAINER) < 2:  # noqa: PLR2004
        return ()
    # One that ended with 0 was told to stop, or has finished with all the others.
    lost = [each.termination.at for each in trainers if _has_failed(each) and each.termination]
    lost += [pod.created_at for pod in trainers if pod.is_gated]
    if not lost:
        return ()
    # Pods of the first start all are gated, or not ready yet: nobody has met anybody.
    met = [pod for pod in trainers if not pod.is_gated and (pod.is_ready or _has_failed(pod))]
    return tuple(
        Delete(kind="Pod", name=pod.name, uid=pod.uid, why="its trainer gang lost a member")
        for pod in sorted(met, key=lambda each: each.name)
        if pod.created_at <= max(lost)
    )


def _has_failed(pod: PodSeen) -> bool:
    return pod.termination is not None and pod.termination.exit_code != 0


def _trainers_complete(seen: Observed, sets: tuple[PodSet, ...]) -> bool:
    """Tell whether all trainers are there, and none of an earlier gang is left among them."""
    ours = [each for each in sets if each.role is Role.TRAINER]
    pods = present(seen.pods, ours).values()
    all_there = len(pods) == sum(each.num_pods for each in ours)
    return all_there and not trainer_restarts(seen, sets)


def _hostname(seen: Observed, pods: PodSet, ordinal: int) -> str:
    """Name the machine of an ordinal where the set has several.

    They are not interchangeable even when they are alike: how many pods each takes is part
    of the plan, and the rest of a machine may belong to another set or job.
    """
    if len(set(pods.machines)) == 1:
        return ""
    machine = pods.machines[ordinal]
    return seen.hostnames.get(machine, machine)
