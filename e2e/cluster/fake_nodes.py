"""Fake GPU nodes by kwok: the scheduler binds pods to them and they turn Running, without running.

For tests of placement and scale; what must really execute goes to `nodes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.addresses import Slot
from e2e.cluster.build import folder_of_program, program
from e2e.cluster.machines import Machine, NodePool
from e2e.cluster.processes import ProcessTable

ANNOTATION = {"kwok.x-k8s.io/node": "fake"}
# `pod/fast/pod-complete.yaml` stays out: it ends the pods of Jobs at once.
STAGES = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-delete.yaml",
)


def start_kwok(processes: ProcessTable, *, folder: Path, slot: Slot, kubeconfig: Path) -> None:
    """Start the controller that plays the kubelet of every annotated node."""
    # kwok exits with "no stages found" unless it is given the stages that its module ships.
    shipped = folder_of_program("kwok") / "stage"
    config = folder / "kwok-stages.yaml"
    config.write_text("\n---\n".join((shipped / stage).read_text() for stage in STAGES))
    selector = ",".join(f"{key}={value}" for key, value in ANNOTATION.items())
    processes.start(
        "kwok",
        [
            program("kwok"),
            f"--config={config}",
            f"--kubeconfig={kubeconfig}",
            "--manage-all-nodes=false",
            f"--manage-nodes-with-annotation-selector={selector}",
            "--node-lease-duration-seconds=40",
            f"--server-address=127.0.0.1:{slot.kwok_port}",
        ],
    )


def manifests(pools: Sequence[NodePool]) -> str:
    """Return the pools' v1 Nodes as YAML documents."""
    nodes = (_node(f"{pool.name}-{i}", pool.machine) for pool in pools for i in range(pool.count))
    return yaml.safe_dump_all(nodes)


def _node(name: str, machine: Machine) -> dict[str, Any]:
    resources = {
        "cpu": "96",
        "memory": "1024Gi",
        "ephemeral-storage": "2048Gi",
        "pods": "110",
        "nvidia.com/gpu": str(machine.gpus),
    }
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **machine.labels()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": ANNOTATION, "labels": labels},
        "status": {"capacity": resources, "allocatable": resources},
    }
