"""Another project's controller beside a cluster, as a process of this machine.

Its pods' place is taken by the process, its Service's by URLs in its webhooks. Which controller it
is, and how it is configured, is `kueue`'s and `jobset`'s.
"""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from e2e.cluster.cluster import Cluster
from e2e.cluster.errors import ClusterError
from hetrl_cli.run.setup.ports import free_ports
from hetrl_operator.render import tls

_READY_SECONDS = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """Where one controller listens, and what the API server knows it by."""

    name: str
    folder: Path
    """Its configuration, its certificates and its log."""

    authority: bytes
    webhook_port: int
    health_port: int

    @classmethod
    def prepare(cls, name: str, folder: Path) -> Neighbour:
        """Write certificates into a folder, and find ports that are free."""
        (folder / "certificates").mkdir(parents=True, exist_ok=True)
        webhook_port, health_port = free_ports(2)
        return cls(
            name=name,
            folder=folder,
            authority=_write_certificates(folder / "certificates"),
            webhook_port=webhook_port,
            health_port=health_port,
        )

    @property
    def certificates(self) -> Path:
        return self.folder / "certificates"

    @contextmanager
    def running(
        self, cluster: Cluster, command: Sequence[str]
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run its program until the end, once it is ready."""
        log = self.folder / f"{self.name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdout=output,
                stderr=output,
                env=os.environ | {"KUBECONFIG": str(cluster.kubeconfig)},
            )
        try:
            self._wait_until_ready(process, log)
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)

    def webhooks(
        self, body: dict[str, Any], kept: Callable[[dict[str, Any]], bool]
    ) -> dict[str, Any]:
        """Return a webhook configuration that asks this process, with those that are wanted."""
        webhooks = [each for each in body["webhooks"] if kept(each)]
        for each in webhooks:
            each["clientConfig"] = self.client(each["clientConfig"]["service"]["path"])
        named = {"name": f"{self.name}-{body['kind'].lower()}"}
        return {**body, "metadata": named, "webhooks": webhooks}

    def listening(self) -> dict[str, Any]:
        """Return what a configuration says of ports and certificates, for one replica alone."""
        return {
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self.health_port}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {
                "host": "127.0.0.1",
                "port": self.webhook_port,
                "certDir": str(self.certificates),
            },
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
        }

    def client(self, path: str) -> dict[str, str]:
        """Return how the API server asks it."""
        bundle = base64.b64encode(self.authority).decode()
        return {"caBundle": bundle, "url": f"https://localhost:{self.webhook_port}{path}"}

    def _wait_until_ready(self, process: subprocess.Popen[bytes], log: Path) -> None:
        ends_at = time.monotonic() + _READY_SECONDS
        while time.monotonic() < ends_at and process.poll() is None:
            try:
                url = f"http://127.0.0.1:{self.health_port}/readyz"
                with urllib.request.urlopen(url, timeout=2) as reply:
                    if reply.status == 200:
                        return
            except OSError:
                time.sleep(0.2)
        raise ClusterError(f"{self.name} is not ready; its log ends: {log.read_text()[-3000:]}")


def _write_certificates(folder: Path) -> bytes:
    issued = tls.issue(seed=os.urandom(32), job="operator", dns_names=(), now=datetime.now(UTC))
    leaf = issued.leaves[0][1]
    (folder / "tls.crt").write_bytes(leaf.certificate)
    (folder / "tls.key").write_bytes(leaf.key)
    return issued.authority
