"""Notices of departure: how a cloud, an autoscaler or a user announces the removal of a node.

All of these write a taint, a label or an annotation. The planner places nothing new on a node with
a notice, and moves the pods that run there. A cordon is no such notice: it keeps new pods away and
lets the others run.
"""

from collections.abc import Iterable, Mapping
from typing import Any

NOTICES = frozenset(
    {
        # Ours, for users without another tool: `kubectl annotate node NAME hetrl.dev/leaving=why`.
        "hetrl.dev/leaving",
        # GKE, of preemptible and Spot VMs and before maintenance.
        "cloud.google.com/impending-node-termination",
        # AWS Node Termination Handler.
        "aws-node-termination-handler/spot-itn",
        "aws-node-termination-handler/scheduled-maintenance",
        "aws-node-termination-handler/asg-lifecycle-termination",
        "aws-node-termination-handler/rebalance-recommendation",
        # Karpenter, since 1.0 and before.
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",
        # Cluster Autoscaler, once a node's removal has begun. Its candidates may yet stay.
        "ToBeDeletedByClusterAutoscaler",
        # Cloud controllers, of a machine that was shut down; administrators, of a broken one.
        "node.cloudprovider.kubernetes.io/shutdown",
        "node.kubernetes.io/out-of-service",
    }
)
"""Keys of taints, labels and annotations, whatever their value and effect."""


def departure(node: Mapping[str, Any]) -> str:
    """Return why a node will soon be removed; empty if nothing announces it."""
    metadata = node["metadata"]
    if metadata.get("deletionTimestamp"):
        return "being deleted"
    for where, keys in (
        ("taint", (each["key"] for each in node.get("spec", {}).get("taints") or ())),
        ("label", metadata.get("labels") or {}),
        ("annotation", metadata.get("annotations") or {}),
    ):
        if found := _notice(keys):
            return f"about to go ({where} {found})"
    return ""


def notices_among(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations of a node that announce its removal."""
    return {key: value for key, value in annotations.items() if key in NOTICES}


def _notice(keys: Iterable[str]) -> str:
    return next((key for key in sorted(keys) if key in NOTICES), "")
