"""Real nodes: kubelet, containerd, runc and kube-proxy in namespaces of their own; CoreDNS.

They run pods on this machine and stand for machines with GPUs: labels and `nvidia.com/gpu` are
those of the kind, processors and memory are this machine's. Needs root.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.cluster.build import program
from e2e.cluster.cgroups import create_cgroup, remove_cgroup
from e2e.cluster.containerd import Containerd, answers_kubelets
from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.image_store import fill, import_archive, stream_image
from e2e.cluster.machines import Machine, kind
from e2e.cluster.namespaces import Namespaces, create_namespaces, run
from e2e.cluster.network import connect, create_bridge, delete_bridge, write_cni_config
from e2e.cluster.oci import Layout
from e2e.cluster.state import ClusterState

# Inside a node /run is its own, so the usual path serves every node.
RUN = Path("/run/hetrl")
START_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node of a cluster, by its place in the cluster's list."""

    state: ClusterState
    index: int

    @property
    def machine(self) -> Machine:
        return kind(self.state.nodes[self.index])

    @property
    def name(self) -> str:
        same_kind = self.state.nodes[: self.index].count(self.state.nodes[self.index])
        return f"{self.state.nodes[self.index]}-{same_kind}"

    @property
    def ip(self) -> str:
        return self.state.slot.node_ip(self.index)

    @property
    def folder(self) -> Path:
        return self.state.folder / "nodes" / self.name

    @property
    def cgroup(self) -> str:
        return f"hetrl-{self.state.name}-{self.name}"

    @property
    def containerd(self) -> Containerd:
        return Containerd(root=self.folder / "containerd", run=RUN, cni_folder=self.folder / "cni")

    def ctr(self, *arguments: str) -> list[str]:
        """Return the command line that reaches the running node's containerd."""
        return self.namespaces.command(self.containerd.ctr(*arguments))

    @property
    def namespaces(self) -> Namespaces:
        recorded = {process.name: process for process in self.state.processes.recorded()}
        return Namespaces(init_pid=recorded[f"{self.name}-init"].pid)


def nodes_of(state: ClusterState) -> list[Node]:
    return [Node(state=state, index=index) for index in range(len(state.nodes))]


def prepare_network(state: ClusterState) -> None:
    """Create what the API server needs before it starts: the bridge with its address."""
    create_bridge(state.slot)


def start_nodes(state: ClusterState, plane: ControlPlane) -> None:
    """Start every node and cluster DNS; they register themselves with the API server."""
    for node in nodes_of(state):
        start_node(node, plane)
    _start_dns(state, plane)


def start_node(node: Node, plane: ControlPlane) -> None:
    """Start one node."""
    processes = node.state.processes
    namespaces = create_namespaces(processes, node.name)
    _prepare_mounts(node, namespaces)
    connect(node.state.slot, node.index, namespaces, nodes=len(node.state.nodes))
    _start_containerd(node, namespaces)
    _start_kubelet(node, namespaces, plane)
    _start_kube_proxy(node, namespaces, plane)


def load_images(state: ClusterState, layout: Layout, names: Iterable[str]) -> None:
    """Bring images of a layout to running nodes."""
    for node in nodes_of(state):
        for name in names:
            stream_image(layout, name, into=node.containerd, command=node.ctr)


def load_archive(state: ClusterState, archive: Path) -> None:
    """Bring an image archive (docker or OCI) to running nodes and to those started later."""
    import_archive(archive)
    for node in nodes_of(state):
        run(node.ctr("images", "import", str(archive.resolve())))


def lose_node(state: ClusterState, name: str) -> None:
    """Kill all that a node runs, as a power cut does: no pod gets a signal, none comes back."""
    names = [each.name for each in state.processes.recorded()]
    state.processes.stop(*(each for each in names if f"{each}-".startswith(f"{name}-")))


def remove_nodes(state: ClusterState) -> None:
    """Remove what the kernel keeps of nodes whose processes were stopped."""
    for node in nodes_of(state):
        remove_cgroup(node.cgroup)
    delete_bridge(state.slot)


def _prepare_mounts(node: Node, namespaces: Namespaces) -> None:
    kubelet_folder = node.folder / "kubelet"
    for folder in (kubelet_folder, node.folder / "log", node.folder / "cni-results"):
        folder.mkdir(parents=True)
    # The kubelet and CNI have paths that no flag moves: each node sees folders of its own there.
    moved = {
        "/var/lib/kubelet": kubelet_folder,
        "/var/log": node.folder / "log",
        "/var/lib/cni": node.folder / "cni-results",
    }
    for path in moved:
        Path(path).mkdir(parents=True, exist_ok=True)
    script = [
        "set -e",
        "mount --make-rshared /",
        "mount -t tmpfs tmpfs /run",
        f"mkdir -p {RUN}",
        f"hostname {node.name}",
        *(f"mount --bind {own} {path}" for path, own in moved.items()),
    ]
    namespaces.run("sh", "-c", "\n".join(script))


def _start_containerd(node: Node, namespaces: Namespaces) -> None:
    write_cni_config(node.folder / "cni", node.state.slot, node.index)
    fill(node.containerd.root)
    node.containerd.write_config()
    name = f"{node.name}-containerd"
    node.state.processes.start(name, namespaces.command(node.containerd.command))
    socket = Path(f"/proc/{namespaces.init_pid}/root{node.containerd.socket}")
    node.state.processes.wait_for(
        name,
        lambda: socket.exists() and answers_kubelets(socket),
        what="it served kubelets",
        timeout_seconds=START_SECONDS,
    )


def _start_kubelet(node: Node, namespaces: Namespaces, plane: ControlPlane) -> None:
    serving = plane.authority.server(f"kubelet-{node.name}", hosts=(node.ip, node.name))
    (node.folder / "resolv.conf").write_text("")
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.ip,
        "authentication": {"x509": {"clientCAFile": str(plane.authority.certificate)}},
        "tlsCertFile": str(serving.certificate),
        "tlsPrivateKeyFile": str(serving.key),
        "containerRuntimeEndpoint": f"unix://{node.containerd.socket}",
        "clusterDNS": [node.state.slot.host_ip],
        "clusterDomain": "cluster.local",
        "resolvConf": str(node.folder / "resolv.conf"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": create_cgroup(node.cgroup),
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        # Raising its own priority takes CAP_SYS_RESOURCE, which a sandboxed root lacks.
        "oomScoreAdj": 0,
        # A developer's full disk is no reason to evict pods or delete images.
        "evictionHard": {"memory.available": "0%", "nodefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        "serializeImagePulls": False,
    }
    config_path = node.folder / "kubelet.json"
    config_path.write_text(json.dumps(config, indent=1))
    kubeconfig = plane.kubeconfig_for(f"system:node:{node.name}", groups=("system:nodes",))
    labels = ",".join(f"{key}={value}" for key, value in node.machine.labels().items())
    node.state.processes.start(
        f"{node.name}-kubelet",
        namespaces.command(
            [
                program("kubelet"),
                f"--config={config_path}",
                f"--kubeconfig={kubeconfig}",
                f"--hostname-override={node.name}",
                f"--node-ip={node.ip}",
                f"--node-labels={labels}",
            ]
        ),
    )


def _start_kube_proxy(node: Node, namespaces: Namespaces, plane: ControlPlane) -> None:
    node.state.processes.start(
        f"{node.name}-kube-proxy",
        namespaces.command(
            [
                program("kube-proxy"),
                f"--kubeconfig={plane.kubeconfig_for('system:kube-proxy')}",
                f"--hostname-override={node.name}",
                "--proxy-mode=nftables",
                # Pods on one bridge would answer each other past the translation otherwise: the
                # kernel filters bridged packets only with br_netfilter, which it may lack.
                "--masquerade-all",
                # These settings belong to the machine, not to a network namespace.
                "--conntrack-max-per-core=0",
                "--conntrack-tcp-timeout-established=0s",
                "--conntrack-tcp-timeout-close-wait=0s",
                "--oom-score-adj=0",
            ]
        ),
    )


# Only `kubernetes` and `errors`: a `template` block would answer before the cluster does.
COREFILE = """\
cluster.local:53 in-addr.arpa:53 {{
    bind {address}
    errors
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {kubeconfig}
        ttl 1
    }}
}}
"""


def _start_dns(state: ClusterState, plane: ControlPlane) -> None:
    corefile = state.folder / "Corefile"
    corefile.write_text(
        COREFILE.format(address=state.slot.host_ip, kubeconfig=plane.admin_kubeconfig)
    )
    state.processes.start("coredns", [program("coredns"), f"-conf={corefile}"])


def gpu_capacity(machine: Machine) -> dict[str, Any]:
    """Return the patch of a Node's status that makes it a GPU machine."""
    gpus = {"nvidia.com/gpu": str(machine.gpus)}
    return {"status": {"capacity": gpus, "allocatable": gpus}}
