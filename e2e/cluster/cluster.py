"""One Kubernetes cluster: started on this machine, or any other that a kubeconfig leads to.

The parts are `control_plane`, `nodes` and `fake_nodes`; this puts them together and takes them
down, and is what tests hold in their hands.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from e2e.cluster.build import program
from e2e.cluster.cache import exclusive
from e2e.cluster.control_plane import LOOPBACK, READY_SECONDS, ControlPlane
from e2e.cluster.errors import ClusterError, CommandFailedError
from e2e.cluster.fake_nodes import lease_seconds, manifests, start_kwok
from e2e.cluster.kubeconfig import write_token_kubeconfig
from e2e.cluster.machines import NodePool, kind
from e2e.cluster.nodes import (
    Node,
    gpu_capacity,
    load_archive,
    nodes_of,
    prepare_network,
    remove_nodes,
    start_nodes,
)
from e2e.cluster.packages import NODE_PACKAGES, require_packages, require_root
from e2e.cluster.state import ClusterState, claim, clusters, find, forget

COMMAND_SECONDS = 300.0
_SERVED_SECONDS = 60.0
_NODES_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running cluster and the tools to talk to it."""

    kubeconfig: Path
    """Logs in as a cluster administrator."""
    state: ClusterState | None = None
    """Set for a cluster of this machine, None for an attached one."""

    @classmethod
    def start(
        cls, *, name: str, nodes: Sequence[str] = (), fake_nodes: Sequence[NodePool] = ()
    ) -> Self:
        """Start a cluster that ends with this process at the latest.

        Args:
            name: Unique on this machine; taken names are refused.
            nodes: Kinds of real nodes that run pods (`a100`, `l4`, …); needs root.
            fake_nodes: Pools of kwok nodes, whose pods only pretend to run.
        """
        sweep()
        if nodes:
            require_root("a node that runs pods")
            require_packages(NODE_PACKAGES)
        for node in nodes:
            kind(node)
        state = claim(name, nodes=tuple(nodes))
        try:
            return cls(kubeconfig=_boot(state, fake_nodes), state=state)
        except BaseException:
            tear_down(state)
            raise

    @classmethod
    def attach(cls) -> Self:
        """Use the cluster that $KUBECONFIG leads to."""
        kubeconfig = os.environ.get("KUBECONFIG")
        if not kubeconfig:
            raise ClusterError("KUBECONFIG is not set: it names the cluster to attach to")
        return cls(kubeconfig=Path(kubeconfig))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Take the cluster down; an attached one is left alone."""
        if self.state is not None:
            tear_down(self.state)

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Run kubectl and return its output; raise `CommandFailedError` with its error."""
        return self._run("kubectl", arguments, stdin)

    def helm(self, *arguments: str) -> str:
        """Run helm and return its output; raise `CommandFailedError` with its error."""
        return self._run("helm", arguments, "")

    def apply(self, manifest: str) -> str:
        """Apply YAML documents server-side."""
        return self.kubectl("apply", "--server-side", "-f", "-", stdin=manifest)

    def add_kinds(self, crds: Path | str) -> None:
        """Apply CRDs, those of a folder or of YAML, and wait until all kinds are served."""
        where = str(crds) if isinstance(crds, Path) else "-"
        text = "" if isinstance(crds, Path) else crds
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", where, stdin=text)
        deadline = time.monotonic() + _SERVED_SECONDS
        while unserved := self._unserved_kinds():
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"not served {_SERVED_SECONDS:g} s after they were applied: "
                    + ", ".join(sorted(unserved))
                )
            time.sleep(0.2)

    def _unserved_kinds(self) -> set[str]:
        # Discovery, and not the condition Established: a kind is served a moment after that.
        wanted = self.kubectl("get", "crd", "-o", "name").split()
        served = self.kubectl("api-resources", "-o", "name").split()
        return {each.rpartition("/")[2] for each in wanted} - set(served)

    def kubeconfig_for(self, user: str, *, groups: tuple[str, ...] = ()) -> Path:
        """Return a kubeconfig for any user, who has the rights that RBAC gives."""
        return control_plane(self._local_state("issue certificates")).kubeconfig_for(
            user, groups=groups
        )

    def service_account_kubeconfig(self, *, namespace: str, name: str) -> Path:
        """Return a kubeconfig that logs in as a service account, by a token for an hour."""
        state = self._local_state("write service-account kubeconfigs")
        token = self.kubectl("create", "token", name, "--namespace", namespace).strip()
        plane = control_plane(state)
        return write_token_kubeconfig(
            state.folder / "kubeconfigs" / f"{namespace}.{name}",
            server=plane.server,
            authority=plane.authority.certificate,
            token=token,
        )

    def load_image(self, archive: Path) -> None:
        """Bring an image archive (docker or OCI) to every node."""
        load_archive(self._local_state("load images"), archive)

    def logs_tail(self) -> str:
        """Return the end of every component's log."""
        table = self._local_state("read component logs").processes
        names = dict.fromkeys(process.name for process in table.recorded())
        return "\n".join(f"== {name}\n{table.tail(name)}" for name in names)

    def _run(self, name: str, arguments: Sequence[str], stdin: str) -> str:
        done = subprocess.run(
            [program(name), *arguments],
            env=os.environ | {"KUBECONFIG": str(self.kubeconfig)},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        if done.returncode:
            raise CommandFailedError([name, *arguments], done.stderr or done.stdout)
        return done.stdout

    def _local_state(self, action: str) -> ClusterState:
        if self.state is None:
            raise ClusterError(f"cannot {action} on an attached cluster: {self.kubeconfig}")
        return self.state


def control_plane(state: ClusterState) -> ControlPlane:
    """Return the control plane of a cluster of this machine."""
    return ControlPlane(
        folder=state.folder,
        slot=state.slot,
        address=state.slot.host_ip if state.nodes else LOOPBACK,
        processes=state.processes,
    )


def sweep() -> None:
    """Take down clusters whose owner died without doing so."""
    for state in clusters():
        if state.is_abandoned:
            tear_down(state)


def tear_down(state: ClusterState) -> None:
    """Stop everything that belongs to the cluster and forget it."""
    with exclusive(f"tear-down-{state.name}"):
        # Two may sweep the same cluster; the second finds it gone, or a new one of that name.
        if find(state.name) != state:
            return
        state.processes.stop()
        remove_nodes(state)
        forget(state)


def _boot(state: ClusterState, fake_nodes: Sequence[NodePool]) -> Path:
    plane = control_plane(state)
    if state.nodes:
        prepare_network(state)
    plane.start(node_lease_seconds=lease_seconds(fake_nodes))
    cluster = Cluster(kubeconfig=plane.admin_kubeconfig, state=state)
    if state.nodes:
        start_nodes(state, plane)
    if fake_nodes:
        cluster.apply(manifests(fake_nodes))
        start_kwok(
            state.processes,
            fake_nodes,
            folder=state.folder,
            slot=state.slot,
            kubeconfig=plane.admin_kubeconfig,
        )
    for node in nodes_of(state):
        _wait_until_registered(cluster, node)
    if state.nodes or fake_nodes:
        _wait_until_ready(cluster, state)
    # Pods of a namespace are refused until its service account is there.
    state.processes.wait_for(
        "kube-controller-manager",
        lambda: "default" in cluster.kubectl("get", "serviceaccounts", "--output=name"),
        what="the default service account existed",
        timeout_seconds=READY_SECONDS,
    )
    return plane.admin_kubeconfig


def _wait_until_ready(cluster: Cluster, state: ClusterState) -> None:
    # One list for all: `kubectl wait` asks for each node in turn, minutes for some thousand.
    ready = '{range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{"\\n"}{end}'
    state.processes.wait_for(
        "kube-apiserver",
        lambda: (
            set(cluster.kubectl("get", "nodes", f"-o=jsonpath={ready}").split("\n")[:-1])
            == {"True"}
        ),
        what="all nodes were ready",
        timeout_seconds=_NODES_SECONDS,
    )


def _wait_until_registered(cluster: Cluster, node: Node) -> None:
    node.state.processes.wait_for(
        f"{node.name}-kubelet",
        lambda: f"node/{node.name}" in cluster.kubectl("get", "nodes", "--output=name"),
        what="the node was registered",
        timeout_seconds=READY_SECONDS,
    )
    patch = json.dumps(gpu_capacity(node.machine))
    cluster.kubectl("patch", "node", node.name, "--subresource=status", f"--patch={patch}")
