"""One cluster of kwok's nodes and one operator for the tests that need both."""

from collections.abc import Iterator

import pytest

from e2e.cluster.cluster import Cluster
from tests.controller.operator_process import (
    Namespace,
    OperatorProcess,
    cluster_with_crds,
    namespace_for,
    operator_on,
)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with cluster_with_crds("life", num_nodes=6) as found:
        yield found


@pytest.fixture(scope="session")
def operator(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    with operator_on(cluster, tmp_path_factory.mktemp("operator")) as found:
        yield found


@pytest.fixture
def space(
    cluster: Cluster, operator: OperatorProcess, request: pytest.FixtureRequest
) -> Iterator[Namespace]:
    assert operator.process is not None
    with namespace_for(cluster, request.node.name) as found:
        yield found
