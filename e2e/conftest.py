"""Clusters for the user stories; with $KUBECONFIG set, they run on that one."""

import os
import re
from collections.abc import Iterator

import pytest

from e2e.cluster.cluster import Cluster
from e2e.cluster.fixtures import api_server, cluster
from e2e.cluster.images import build_images
from e2e.release import install
from e2e.tenant import Tenant, tenant_in

__all__ = ["api_server", "cluster", "installed", "tenant"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of a module's own, of two nodes that run pods, with HetRL in it."""
    chart = tmp_path_factory.mktemp("chart")
    if os.environ.get("KUBECONFIG"):
        attached = Cluster.attach()
        install(attached, chart)
        yield attached
        return
    build_images()
    with Cluster.start(name=f"e2e-{os.getpid()}", nodes=("a100", "l4")) as found:
        install(found, chart)
        yield found


@pytest.fixture
def tenant(installed: Cluster, request: pytest.FixtureRequest) -> Iterator[Tenant]:
    """A namespace of the test's own."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_"))[:40].strip("-")
    with tenant_in(installed, name) as found:
        yield found
