"""containerd as the nodes and the image store run it: configuration, start, `ctr`.

Every containerd has a root of its own: two kubelets on one would kill each other's pods.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import grpc

from e2e.cluster.pause import IMAGE

NAMESPACE = "k8s.io"
PLUGIN_FOLDER = "/usr/lib/cni"
_ANSWER_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Containerd:
    """The paths of one containerd."""

    root: Path
    """Images and containers."""
    run: Path
    """Sockets and mounts; short, for a socket's path ends at 108 characters."""
    cni_folder: Path
    """Where the configuration of the pod network is."""

    @property
    def socket(self) -> Path:
        return self.run / "containerd.sock"

    @property
    def command(self) -> list[str]:
        return ["containerd", f"--config={self._config}", f"--address={self.socket}"]

    def ctr(self, *arguments: str) -> list[str]:
        return ["ctr", f"--address={self.socket}", f"--namespace={NAMESPACE}", *arguments]

    def write_config(self, *, serves_kubelet: bool = True) -> None:
        """Write the configuration; only a node's containerd has the interface for kubelets."""
        self.root.mkdir(parents=True, exist_ok=True)
        # In the store that interface would give every image a name of its own, and keep it alive.
        disabled = "" if serves_kubelet else '"io.containerd.grpc.v1.cri"'
        self._config.write_text(
            CONFIG.format(
                disabled=disabled,
                root=self.root,
                state=self.run / "containerd",
                cni_folder=self.cni_folder,
                plugin_folder=PLUGIN_FOLDER,
                pause=IMAGE,
                restrict_oom_score="false" if _may_lower_oom_score() else "true",
            )
        )

    @property
    def _config(self) -> Path:
        return self.root.with_suffix(".toml")


CONFIG = """\
version = 2
root = "{root}"
state = "{state}"
disabled_plugins = [{disabled}]
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
restrict_oom_score_adj = {restrict_oom_score}
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugin_folder}"
conf_dir = "{cni_folder}"
"""


def answers_kubelets(socket: Path) -> bool:
    """Tell whether a containerd is ready for a kubelet, which ends if it is not.

    Its socket is there some time before what listens on it has read what the root holds.
    """
    with grpc.insecure_channel(f"unix://{socket}") as channel:
        # An empty VersionRequest is no bytes, and of the answer nothing is wanted.
        version = channel.unary_unary("/runtime.v1.RuntimeService/Version")
        try:
            version(b"", timeout=_ANSWER_SECONDS)
        except grpc.RpcError:
            return False
    return True


def _may_lower_oom_score() -> bool:
    # Without CAP_SYS_RESOURCE (bit 24) runc dies of it: "can't get final child's PID from pipe".
    status = Path("/proc/self/status").read_text()
    effective = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    return os.geteuid() == 0 and bool(int(effective.split()[1], 16) >> 24 & 1)
