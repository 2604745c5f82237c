"""The queues of the proof: room for one job of three GPUs, and two classes of weight."""

from __future__ import annotations

from typing import Any

import yaml

QUOTA = {"a100": 1, "l4": 2}
_PRODUCTS = {"a100": "NVIDIA-A100-SXM4-80GB", "l4": "NVIDIA-L4"}
_API = "kueue.x-k8s.io/v1beta2"


def manifests(namespace: str) -> str:
    """Return them as YAML."""
    return yaml.safe_dump_all([*_flavors(), *_classes(), _cluster_queue(), _local_queue(namespace)])


def _flavors() -> list[dict[str, Any]]:
    gpus = [
        {
            "apiVersion": _API,
            "kind": "ResourceFlavor",
            "metadata": {"name": name},
            "spec": {"nodeLabels": {"nvidia.com/gpu.product": product}},
        }
        for name, product in _PRODUCTS.items()
    ]
    return [{"apiVersion": _API, "kind": "ResourceFlavor", "metadata": {"name": "any"}}, *gpus]


def _classes() -> list[dict[str, Any]]:
    return [
        {
            "apiVersion": _API,
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": name},
            "value": value,
            "description": f"{name} jobs",
        }
        for name, value in (("everyday", 10), ("urgent", 1000))
    ]


def _cluster_queue() -> dict[str, Any]:
    gpus = [
        {"name": name, "resources": [{"name": "nvidia.com/gpu", "nominalQuota": str(quota)}]}
        for name, quota in QUOTA.items()
    ]
    compute = [
        {"name": "cpu", "nominalQuota": "100"},
        {"name": "memory", "nominalQuota": "100Gi"},
    ]
    return {
        "apiVersion": _API,
        "kind": "ClusterQueue",
        "metadata": {"name": "research"},
        "spec": {
            "namespaceSelector": {},
            "preemption": {"withinClusterQueue": "LowerPriority"},
            "resourceGroups": [
                {
                    "coveredResources": ["cpu", "memory"],
                    "flavors": [{"name": "any", "resources": compute}],
                },
                {"coveredResources": ["nvidia.com/gpu"], "flavors": gpus},
            ],
        },
    }


def _local_queue(namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": _API,
        "kind": "LocalQueue",
        "metadata": {"name": "team", "namespace": namespace},
        "spec": {"clusterQueue": "research"},
    }
