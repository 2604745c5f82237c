"""Effects of a node's taints and cordon on a job's pods: which may start, and which may stay.

The functions read slim Nodes, as ``parse`` makes them. ``hetrl_api.fleet.departure`` reads notices
of a node's end.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from hetrl_api.fleet.departure import departure
from hetrl_api.job.runtime import Toleration, TolerationOperator
from hetrl_operator.model.observed import PodSeen

Node = Mapping[str, Any]
Tolerations = tuple[Toleration, ...]

_GPU_TAINT = "nvidia.com/gpu"
"""Taint of GPU nodes in many clusters; our pods tolerate it."""

_UNWELL = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Taints of a node that does not answer and may come back; ``nodeLostSeconds`` covers these."""


def untolerated(node: Node, tolerations: Tolerations) -> str:
    """Say which taint keeps a job's new pods off a node; empty where none does."""
    for taint in node["spec"]["taints"]:
        if taint["effect"] != "PreferNoSchedule" and not _tolerated(taint, tolerations):
            return f"{_words(taint)} is not tolerated"
    return ""


def must_leave(node: Node, tolerations: Tolerations, pods: Iterable[PodSeen]) -> str:
    """Say why a job's pods cannot stay on a node; empty where they can.

    Args:
        node: a machine of the job's plan.
        tolerations: the tolerations of the job's pods.
        pods: the job's pods.
    """
    if why := departure(node):
        return why
    for taint in node["spec"]["taints"]:
        evicts = taint["effect"] == "NoExecute" and taint["key"] not in _UNWELL
        if evicts and not _tolerated(taint, tolerations):
            return f"{_words(taint)} is not tolerated"
    closed = "cordoned" if node["spec"]["unschedulable"] else untolerated(node, tolerations)
    if closed and any(waits_for(node, each) for each in pods):
        return f"{closed}, and a pod waits for it"
    return ""


def waits_for(node: Node, pod: PodSeen) -> bool:
    """Tell whether a pod is pinned to a node and the scheduler cannot bind it."""
    if pod.node or pod.is_deleting or pod.unschedulable_since is None:
        return False
    name, labels = node["metadata"]["name"], node["metadata"]["labels"]
    hostname = labels.get("kubernetes.io/hostname", name)
    if pod.selected_hostname:
        return bool(pod.selected_hostname == hostname)
    return pod.affinity_nodes == {name}


def _tolerated(taint: Mapping[str, str], tolerations: Tolerations) -> bool:
    return taint["key"] == _GPU_TAINT or any(_covers(each, taint) for each in tolerations)


def _covers(toleration: Toleration, taint: Mapping[str, str]) -> bool:
    if toleration.effect and toleration.effect != taint["effect"]:
        return False
    if toleration.operator is TolerationOperator.EXISTS:
        return toleration.key in {None, taint["key"]}
    return toleration.key == taint["key"] and (toleration.value or "") == taint["value"]


def _words(taint: Mapping[str, str]) -> str:
    value = f"={taint['value']}" if taint["value"] else ""
    return f"taint {taint['key']}{value}:{taint['effect']}"
