"""Readers of Nodes, which are kept slim."""

from datetime import datetime

from hetrl_api.fleet.departure import notices_among
from hetrl_operator.model.parse.objects import Body, optional_time


def slim_node(body: Body) -> Body:
    """Reduce a Node to what planning reads: labels, taints, GPUs, cordon and departure notices."""
    metadata, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    conditions = [
        {
            "type": each["type"],
            "status": each["status"],
            "lastTransitionTime": each.get("lastTransitionTime"),
        }
        for each in status.get("conditions") or ()
        if each["type"] == "Ready"
    ]
    gpus = (status.get("allocatable") or {}).get("nvidia.com/gpu")
    return {
        "metadata": {
            "name": metadata["name"],
            "labels": dict(metadata.get("labels") or {}),
            "annotations": notices_among(metadata.get("annotations") or {}),
            "deletionTimestamp": metadata.get("deletionTimestamp"),
        },
        "spec": {
            "unschedulable": bool(spec.get("unschedulable")),
            "taints": [
                {"key": each["key"], "value": each.get("value", ""), "effect": each["effect"]}
                for each in spec.get("taints") or ()
            ],
        },
        "status": {
            "allocatable": {} if gpus is None else {"nvidia.com/gpu": gpus},
            "conditions": conditions,
        },
    }


def lost_since(node: Body) -> datetime | None:
    """Return since when a slim Node has not answered; None if it answers."""
    for each in node["status"]["conditions"]:
        if each["type"] == "Ready" and each["status"] != "True":
            return optional_time(each["lastTransitionTime"])
    return None
