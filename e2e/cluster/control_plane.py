"""etcd, kube-apiserver, kube-controller-manager and kube-scheduler, as processes of this machine.

Needs no root. Nodes, real or fake, join by kubeconfig: that is left to `nodes` and `fake_nodes`.
"""

from __future__ import annotations

import http.client
import ssl
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.addresses import Slot
from e2e.cluster.build import program
from e2e.cluster.certificates import Authority, KeyPair, create_authority, create_signing_key
from e2e.cluster.kubeconfig import write_kubeconfig
from e2e.cluster.processes import ProcessTable

READY_SECONDS = 60.0
LOOPBACK = "127.0.0.1"
# The controllers' defaults, 20 and 50 requests a second, would be what a load test measures.
UNTHROTTLED = ("--kube-api-qps=500", "--kube-api-burst=1000")
NODE_GRACE_SECONDS = 10
"""After a lease's end a node is taken for lost; Kubernetes' own 50 s is 40 and these."""

AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """The control plane of one cluster; its files are in `folder`."""

    folder: Path
    slot: Slot
    address: str
    """Where the API server listens: loopback, or the bridge when there are nodes to reach it."""
    processes: ProcessTable

    @property
    def server(self) -> str:
        return f"https://{self.address}:{self.slot.api_server_port}"

    @property
    def authority(self) -> Authority:
        return Authority(folder=self.folder / "pki")

    @property
    def admin_kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        return self.folder / "logs" / "audit.log"

    def start(self, *, node_lease_seconds: int) -> None:
        """Start everything and wait until the API server is ready."""
        authority = create_authority(self.folder / "pki")
        token_key = create_signing_key(authority.folder, "service-account")
        admin = authority.client("admin", user="local-admin", groups=("system:masters",))
        self._write_kubeconfig(self.admin_kubeconfig, admin)
        self._start_etcd()
        self._start_api_server(token_key)
        self.processes.wait_for(
            "kube-apiserver",
            lambda: self._is_ready(admin),
            what="the API server was ready",
            timeout_seconds=READY_SECONDS,
        )
        self._start_controller_manager(token_key, node_lease_seconds=node_lease_seconds)
        self._start_scheduler()

    def kubeconfig_for(self, user: str, *, groups: tuple[str, ...] = ()) -> Path:
        """Write a kubeconfig for any user, known to the API server by a client certificate."""
        file_name = user.replace(":", "-").replace("/", "-")
        client = self.authority.client(f"client-{file_name}", user=user, groups=groups)
        return self._write_kubeconfig(self.folder / "kubeconfigs" / file_name, client)

    def _write_kubeconfig(self, path: Path, client: KeyPair) -> Path:
        return write_kubeconfig(
            path, server=self.server, authority=self.authority.certificate, client=client
        )

    def _start_etcd(self) -> None:
        client = f"http://{LOOPBACK}:{self.slot.etcd_client_port}"
        peer = f"http://{LOOPBACK}:{self.slot.etcd_peer_port}"
        self.processes.start(
            "etcd",
            [
                program("etcd"),
                f"--data-dir={self.folder / 'etcd'}",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                # Test clusters need no durability; fsync is half the boot time.
                "--unsafe-no-fsync",
            ],
        )

    def _start_api_server(self, token_key: KeyPair) -> None:
        authority = self.authority
        serving = authority.server(
            "kube-apiserver",
            hosts=(
                self.address,
                LOOPBACK,
                "localhost",
                self.slot.kubernetes_service_ip,
                "kubernetes",
                "kubernetes.default",
                "kubernetes.default.svc",
                "kubernetes.default.svc.cluster.local",
            ),
        )
        kubelet_client = authority.client(
            "kubelet-client", user="kube-apiserver", groups=("system:masters",)
        )
        audit_policy = self.folder / "audit-policy.yaml"
        audit_policy.write_text(AUDIT_POLICY)
        self.processes.start(
            "kube-apiserver",
            [
                program("kube-apiserver"),
                f"--etcd-servers=http://{LOOPBACK}:{self.slot.etcd_client_port}",
                f"--bind-address={self.address}",
                f"--advertise-address={self.address}",
                f"--secure-port={self.slot.api_server_port}",
                f"--service-cluster-ip-range={self.slot.service_network}",
                f"--tls-cert-file={serving.certificate}",
                f"--tls-private-key-file={serving.key}",
                f"--client-ca-file={authority.certificate}",
                "--authorization-mode=Node,RBAC",
                "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
                "--allow-privileged",
                "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
                f"--service-account-key-file={token_key.certificate}",
                f"--service-account-signing-key-file={token_key.key}",
                f"--kubelet-certificate-authority={authority.certificate}",
                f"--kubelet-client-certificate={kubelet_client.certificate}",
                f"--kubelet-client-key={kubelet_client.key}",
                # Nodes have no DNS name here: `kubectl logs` and `exec` fail on the look-up.
                "--kubelet-preferred-address-types=InternalIP",
                f"--audit-policy-file={audit_policy}",
                f"--audit-log-path={self.audit_log}",
                # Rotated at 100 MiB otherwise, in the middle of a test of load that reads it.
                "--audit-log-maxsize=8192",
            ],
        )

    def _start_controller_manager(self, token_key: KeyPair, *, node_lease_seconds: int) -> None:
        self.processes.start(
            "kube-controller-manager",
            [
                program("kube-controller-manager"),
                f"--kubeconfig={self._component_kubeconfig('kube-controller-manager')}",
                f"--bind-address={LOOPBACK}",
                f"--secure-port={self.slot.controller_manager_port}",
                f"--root-ca-file={self.authority.certificate}",
                f"--service-account-private-key-file={token_key.key}",
                "--use-service-account-credentials",
                f"--node-monitor-grace-period={node_lease_seconds + NODE_GRACE_SECONDS}s",
                "--leader-elect=false",
                *UNTHROTTLED,
            ],
        )

    def _start_scheduler(self) -> None:
        self.processes.start(
            "kube-scheduler",
            [
                program("kube-scheduler"),
                f"--kubeconfig={self._component_kubeconfig('kube-scheduler')}",
                f"--bind-address={LOOPBACK}",
                f"--secure-port={self.slot.scheduler_port}",
                "--leader-elect=false",
                *UNTHROTTLED,
            ],
        )

    def _component_kubeconfig(self, component: str) -> Path:
        return self.kubeconfig_for(f"system:{component}")

    def _is_ready(self, admin: KeyPair) -> bool:
        context = ssl.create_default_context(cafile=self.authority.certificate)
        context.load_cert_chain(admin.certificate, admin.key)
        port = self.slot.api_server_port
        connection = http.client.HTTPSConnection(self.address, port, context=context, timeout=5)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.HTTPStatus.OK
        except OSError:
            return False
        finally:
            connection.close()
