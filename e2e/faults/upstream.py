"""The real API server as the proxy reaches it: by a client certificate of its own."""

from __future__ import annotations

import base64
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """An API server and who we are to it."""

    server: str
    authority: Path
    certificate: Path
    key: Path

    @classmethod
    def of(cls, kubeconfig: Path) -> Upstream:
        """Read a kubeconfig of `e2e.cluster`, which holds its certificates."""
        found = json.loads(kubeconfig.read_text())
        cluster, user = found["clusters"][0]["cluster"], found["users"][0]["user"]
        return cls(
            server=cluster["server"],
            authority=_unpacked(kubeconfig, "authority", cluster["certificate-authority-data"]),
            certificate=_unpacked(kubeconfig, "certificate", user["client-certificate-data"]),
            key=_unpacked(kubeconfig, "key", user["client-key-data"]),
        )

    def tls(self) -> ssl.SSLContext:
        """Return what connections are made with."""
        context = ssl.create_default_context(cafile=str(self.authority))
        context.load_cert_chain(self.certificate, self.key)
        return context


def _unpacked(kubeconfig: Path, name: str, content: str) -> Path:
    path = kubeconfig.with_name(f"{kubeconfig.name}-{name}.pem")
    # Whole or not at all: another lane may be reading it.
    with NamedTemporaryFile(dir=path.parent, delete=False) as partial:
        partial.write(base64.b64decode(content))
    return Path(partial.name).rename(path)
