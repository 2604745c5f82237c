"""One cluster of kwok's nodes and one operator for the tests that need both."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.cluster import Cluster
from e2e.cluster.machines import evenly
from tests.controller.operator_process import Namespace, OperatorProcess, namespace_of

CRDS = Path(__file__).parents[2] / "crds"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with Cluster.start(name=f"life-{os.getpid()}", fake_nodes=evenly(6)) as found:
        found.kubectl("apply", "--server-side", "-f", str(CRDS))
        found.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(CRDS))
        yield found


@pytest.fixture(scope="session")
def operator(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    process = OperatorProcess(cluster, tmp_path_factory.mktemp("operator"))
    process.start()
    yield process
    assert process.stop() == 0
    log = process.log.read_text()
    assert "Traceback" not in log, log[-5000:]


@pytest.fixture
def space(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Namespace]:
    request.getfixturevalue("operator")
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_"))[:50].strip("-")
    with namespace_of(cluster, name) as found:
        yield found
