"""The API server as a user, the kubelet and a judge ask it: beside the proxy, never through it."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from e2e.faults.upstream import Upstream

WAIT_SECONDS = 90.0
MERGE = "application/merge-patch+json"

Json = dict[str, Any]
Found = TypeVar("Found")

PATHS = {
    "hetrljobs": "/apis/hetrl.dev/v1alpha1/namespaces/{}/hetrljobs",
    "hetrlplans": "/apis/hetrl.dev/v1alpha1/namespaces/{}/hetrlplans",
    "statefulsets": "/apis/apps/v1/namespaces/{}/statefulsets",
    "services": "/api/v1/namespaces/{}/services",
    "configmaps": "/api/v1/namespaces/{}/configmaps",
    "secrets": "/api/v1/namespaces/{}/secrets",
    "pods": "/api/v1/namespaces/{}/pods",
}
OURS = "labelSelector=app.kubernetes.io%2Fmanaged-by%3Dhetrl-operator"


class NotFoundError(Exception):
    """The object is not there."""


def eventually(probe: Callable[[], Found], *, what: str, seconds: float = WAIT_SECONDS) -> Found:
    """Ask until the answer is true, and return it."""
    ends_at = time.monotonic() + seconds
    found = probe()
    while not found:
        if time.monotonic() > ends_at:
            raise TimeoutError(f"not within {seconds:g} s: {what}; last: {found!r}")
        time.sleep(0.1)
        found = probe()
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """Requests with JSON in and out."""

    upstream: Upstream
    _tls: ssl.SSLContext = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_tls", self.upstream.tls())

    def get(self, path: str) -> Json:
        """Return an object or a list."""
        return self._send("GET", path)

    def create(self, path: str, body: Json) -> Json:
        """Create an object."""
        return self._send("POST", path, body)

    def merge(self, path: str, body: Json) -> Json:
        """Change some fields."""
        return self._send("PATCH", path, body, content_type=MERGE)

    def delete(self, path: str) -> Json:
        """Delete an object."""
        return self._send("DELETE", path)

    def _send(
        self, method: str, path: str, body: Json | None = None, *, content_type: str = ""
    ) -> Json:
        request = urllib.request.Request(
            self.upstream.server + path,
            method=method,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Content-Type": content_type or "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=30, context=self._tls) as reply:
                found: Json = json.loads(reply.read())
                return found
        except urllib.error.HTTPError as error:
            with error:
                said = error.read().decode()
            if error.code == 404:
                raise NotFoundError(path) from None
            raise RuntimeError(f"{method} {path}: {said}") from error
