"""A sample of what `make proof-faults` plays whole: one job's life, disturbed."""

import random
from collections.abc import Iterator

import pytest

from e2e.cluster.cluster import Cluster
from e2e.faults.fault import Category, Fault, once
from e2e.faults.sweep import Lane, lane, violations

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SEED = 1


@pytest.fixture(scope="module")
def disturbed(fleet: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lane]:
    with lane(fleet, 0, tmp_path_factory.mktemp("lane")) as found:
        yield found


@pytest.mark.parametrize(
    "fault", [Fault.KILL_BEFORE, Fault.KILL_AND_STALE], ids=lambda fault: fault.name.lower()
)
def test_operator_killed_at_a_write_reaches_the_same_end(disturbed: Lane, fault: Fault) -> None:
    undisturbed = disturbed.undisturbed()
    number = random.Random(f"{SEED}/{fault}").randint(1, len(undisturbed.writes))

    story = disturbed.live(once(fault, category=Category.WRITE, number=number))

    assert story.deaths == 1
    assert violations(undisturbed, story) == []
