"""A sample of what `make proof-load` measures whole: nine jobs at once, then a fleet too small."""

from collections.abc import Iterator

import pytest

from bench.proof.load import growth, race, running
from e2e.cluster.machines import evenly
from e2e.load.crowd import Crowd
from e2e.load.stage import Stage, stage

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

MOST_REQUESTS_PER_JOB = 30
NUM_L4S = 16


@pytest.fixture(scope="module")
def on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(evenly(6), tmp_path_factory.mktemp("load")) as found:
        yield found


async def test_crowd_runs_for_few_requests_and_a_restart_writes_nothing(on: Stage) -> None:
    crowd = Crowd(size=9)
    found = await growth.submitted(on, crowd)
    assert found["stateful_sets"] == 27
    assert found["requests_per_job"] <= MOST_REQUESTS_PER_JOB, found["requests"]

    restarted = await running.restarted(on, crowd)
    assert restarted["writes"] == {}

    await growth.removed(on)


async def test_second_of_two_large_jobs_waits_and_then_runs(on: Stage) -> None:
    found = await race.two(on, gpus=NUM_L4S)

    assert found["overlaps"] == []
    assert "other jobs hold 9 GPUs" in found["said"]
