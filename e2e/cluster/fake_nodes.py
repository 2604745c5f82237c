"""Fake GPU nodes by kwok: the scheduler binds pods to them and they turn Running, without running.

For tests of placement and scale; what must really execute goes to `nodes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
# By default, kwok ignores a pod that it has set running. A kubelet restores a pod's status. The
# status is lost where no container runs and is ready, waits for a reason or has ended. Addresses
# stay: kwok has new ones every time, and a pod may have one of each family.
READY_AGAIN = """\
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: pod-ready-again
spec:
  resourceRef:
    apiGroup: v1
    kind: Pod
  selector:
    matchExpressions:
    - key: .metadata.deletionTimestamp
      operator: DoesNotExist
    - key: .status.phase
      operator: In
      values: [Running]
    - key: >-
        [.status.containerStatuses[]?
        | .ready and .state.running, .state.waiting.reason, .state.terminated] | any
      operator: In
      values: ["false"]
  next:
    statusTemplate: |
      {{ $now := Now }}
      conditions:
      {{ range list "Ready" "ContainersReady" }}
      - type: {{ . }}
        status: "True"
        lastTransitionTime: {{ $now | Quote }}
      {{ end }}
      containerStatuses:
      {{ range .spec.containers }}
      - name: {{ .name | Quote }}
        image: {{ .image | Quote }}
        ready: true
        restartCount: 0
        state:
          running:
            startedAt: {{ $now | Quote }}
      {{ end }}
"""

LEASE_SECONDS = 40
MOST_RENEWALS_PER_SECOND = 5
RENEWALS_PER_LEASE = 4


def lease_seconds(pools: Sequence[NodePool]) -> int:
    """Return how long a node's lease lasts: the longer, the more nodes renew theirs.

    With kubelets' 40 s, hundreds of nodes on two cores miss renewals as soon as there is load, and
    are taken for lost.
    """
    count = sum(pool.count for pool in pools)
    return max(LEASE_SECONDS, count * RENEWALS_PER_LEASE // MOST_RENEWALS_PER_SECOND)


def start_kwok(
    processes: ProcessTable,
    pools: Sequence[NodePool],
    *,
    folder: Path,
    slot: Slot,
    kubeconfig: Path,
) -> None:
    """Start the controller that plays the kubelet of every annotated node."""
    # kwok exits with "no stages found" unless it is given the stages that its module ships.
    shipped = folder_of_program("kwok") / "stage"
    config = folder / "kwok-stages.yaml"
    stages = [*((shipped / stage).read_text() for stage in STAGES), READY_AGAIN]
    config.write_text("\n---\n".join(stages))
    selector = ",".join(f"{key}={value}" for key, value in ANNOTATION.items())
    processes.start(
        "kwok",
        [
            program("kwok"),
            f"--config={config}",
            f"--kubeconfig={kubeconfig}",
            "--manage-all-nodes=false",
            f"--manage-nodes-with-annotation-selector={selector}",
            f"--node-lease-duration-seconds={lease_seconds(pools)}",
            f"--server-address=127.0.0.1:{slot.kwok_port}",
        ],
    )


def manifests(pools: Sequence[NodePool]) -> str:
    """Return the pools' v1 Nodes as YAML documents."""
    return yaml.safe_dump_all(nodes(pools))


def nodes(pools: Sequence[NodePool]) -> Iterator[dict[str, Any]]:
    """Yield the pools' v1 Nodes."""
    for pool in pools:
        for number in range(pool.count):
            yield _node(f"{pool.name}-{number}", pool.machine)


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
