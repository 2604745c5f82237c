"""pytest fixtures that hand out clusters; load with `pytest_plugins = ["e2e.cluster.fixtures"]`.

With $KUBECONFIG set, every fixture uses that cluster instead of starting one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from e2e.cluster.cluster import Cluster
from e2e.cluster.images import build_images


@pytest.fixture(scope="session")
def api_server() -> Iterator[Cluster]:
    """A real API server with its controllers and scheduler, without any node."""
    if os.environ.get("KUBECONFIG"):
        yield Cluster.attach()
        return
    with Cluster.start(name=f"api-{os.getpid()}") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A cluster of two nodes that run pods, one standing for A100s and one for L4s.

    HetRL's images (`e2e.cluster.images.IMAGES`) are on both, built from the checkout.
    """
    if os.environ.get("KUBECONFIG"):
        yield Cluster.attach()
        return
    build_images()
    with Cluster.start(name=f"pods-{os.getpid()}", nodes=("a100", "l4")) as running:
        yield running
