"""Counts and descriptions of a job's pods, shared by the policies."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hetrl_core.plan.pod_sets import PodSet
from hetrl_core.task import Role
from hetrl_operator.model.observed import PodSeen

if TYPE_CHECKING:
    from datetime import datetime

WORKERS = frozenset({Role.ROLLOUT, Role.INFERENCE})
"""Roles whose pods are interchangeable: another pod can take over a pod's work."""

_MOST_NAMED = 8


def present(pods: Iterable[PodSeen], sets: Iterable[PodSet]) -> dict[tuple[str, int], PodSeen]:
    """Return the pods that belong to the sets, by set and ordinal."""
    sizes = {each.name: each.num_pods for each in sets}
    return {
        (pod.pod_set, pod.ordinal): pod
        for pod in pods
        if not pod.is_deleting and pod.ordinal < sizes.get(pod.pod_set, 0)
    }


def num_wanted(sets: Iterable[PodSet], role: Role) -> int:
    """Count the pods that a role should have."""
    return sum(each.num_pods for each in sets if each.role is role)


def num_ready(pods: Iterable[PodSeen], role: Role) -> int:
    """Count the ready pods of a role."""
    return sum(pod.is_ready and not pod.is_deleting for pod in pods if pod.role is role)


def started_at(pod: PodSeen) -> "datetime":
    """Return when a pod got its node, or was made where it waits for one."""
    return pod.scheduled_at or pod.created_at


def has_failed(pod: PodSeen) -> bool:
    """Tell whether a pod's container ended last with an error.

    A container that exited with 0 was stopped, or has finished with the whole job.
    """
    return pod.termination is not None and pod.termination.exit_code != 0


def names_and_reasons(pods: Iterable[PodSeen]) -> str:
    """Say which pods are not ready, and why, as far as Kubernetes reports it."""
    there = tuple(pods)
    waiting = sorted(
        (pod for pod in there if pod.is_deleting or not pod.is_ready), key=lambda pod: pod.name
    )
    if not waiting:
        return "the others do not exist yet" if there else "no pod exists yet"
    said = [f"{pod.name}: {trouble(pod)}" for pod in waiting[:_MOST_NAMED]]
    more = len(waiting) - _MOST_NAMED
    return "; ".join(said) + (f"; and {more} more pods" if more > 0 else "")


def trouble(pod: PodSeen) -> str:
    """Say what keeps a pod from being ready."""
    if pod.is_deleting:
        return "stopping"
    if pod.is_gated:
        return "waits for all pods of the job to exist"
    parts = [pod.waiting_reason, pod.waiting_message]
    if pod.termination and pod.termination.exit_code:
        last = pod.termination.message.strip().splitlines()[-1:]
        parts += [f"ended with {pod.termination.exit_code}", *last]
    said = ", ".join(part for part in parts if part) or "started, not ready yet"
    return f"{said}; {pod.others_trouble}" if pod.others_trouble else said
