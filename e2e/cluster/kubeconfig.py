"""Writes kubeconfig files that carry their certificates, so they can be copied anywhere."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from e2e.cluster.certificates import KeyPair


def write_kubeconfig(path: Path, *, server: str, authority: Path, client: KeyPair) -> Path:
    """Write a kubeconfig that logs in with a client certificate."""
    user = {
        "client-certificate-data": _encoded(client.certificate),
        "client-key-data": _encoded(client.key),
    }
    return _write(path, server=server, authority=authority, user=user)


def write_token_kubeconfig(path: Path, *, server: str, authority: Path, token: str) -> Path:
    """Write a kubeconfig that logs in with a bearer token, as pods do."""
    return _write(path, server=server, authority=authority, user={"token": token})


def _write(path: Path, *, server: str, authority: Path, user: dict[str, str]) -> Path:
    cluster = {"server": server, "certificate-authority-data": _encoded(authority)}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": cluster}],
        "users": [{"name": "local", "user": user}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": "local"}}],
        "current-context": "local",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    # JSON is YAML, and needs no library to write.
    path.write_text(json.dumps(content, indent=1))
    return path


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
