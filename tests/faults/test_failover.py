"""Two replicas: the leader is killed while it creates a job's objects."""

from pathlib import Path

import pytest

from e2e.cluster.cluster import Cluster
from e2e.faults.failover import replicas

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_standby_replica_takes_over_when_the_leader_is_killed(
    fleet: Cluster, tmp_path: Path
) -> None:
    with replicas(fleet, tmp_path) as both:
        first = both.leader()

        takeover = both.kill_leader("sums")

        assert takeover.made_twice == ()
        assert both.leader() != first
