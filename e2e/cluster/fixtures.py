"""pytest fixtures that hand out clusters; load with `pytest_plugins = ["e2e.cluster.fixtures"]`.

With $KUBECONFIG set, every fixture uses that cluster instead of starting one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from e2e.cluster.cluster import Cluster


@pytest.fixture(scope="session")
def api_server() -> Iterator[Cluster]:
    """A real API server with its controllers and scheduler, without any node."""
    if os.environ.get("KUBECONFIG"):
        yield Cluster.attach()
        return
    with Cluster.start(name=f"api-{os.getpid()}") as cluster:
        yield cluster
