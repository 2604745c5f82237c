"""One cluster of fake nodes for all faults, with the CRDs on it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.cluster import Cluster
from e2e.cluster.machines import evenly
from e2e.faults.sweep import label_lanes

CRDS = Path(__file__).parents[2] / "crds"


@pytest.fixture(scope="session")
def fleet() -> Iterator[Cluster]:
    with Cluster.start(name=f"faults-{os.getpid()}", fake_nodes=evenly(3)) as found:
        found.add_kinds(CRDS)
        label_lanes(found, 1)
        yield found
