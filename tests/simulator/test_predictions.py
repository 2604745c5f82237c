"""Predictions of the cost model compared with simulations of the same plan."""

from dataclasses import replace

import numpy as np
import pytest

from hetrl_core.fleet.snapshot import ClusterSnapshot, Link
from hetrl_core.job.algorithm import Mode
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.plan import Plan
from hetrl_planner.plan_job import plan
from hetrl_planner.simulator.pipeline.compile import compile_plan
from hetrl_planner.simulator.simulate import simulate
from tests.builders import a_fleet, a_job, both

FAR = Link(source="us", target="eu", bytes_per_second=0.6e9, latency_seconds=0.08)
NEAR = a_fleet(a100=16, l40s=8, l4=8)
FLEETS = {
    "one region": NEAR,
    "two regions": both(a_fleet(a100=16, region="us"), a_fleet(l40s=16, region="eu"), links=(FAR,)),
}


def played_over_predicted(fleet: ClusterSnapshot, job: JobSpec) -> float:
    found = plan(fleet, job, runnable_only=True)
    assert isinstance(found, Plan), found
    played = simulate(compile_plan(found, job, fleet), steps=16, generator=np.random.default_rng(1))
    return played.step_seconds.mean / found.prediction.step_seconds


@pytest.mark.slow
@pytest.mark.parametrize("fleet", FLEETS)
@pytest.mark.parametrize("group_size", [1, 8])
@pytest.mark.parametrize("max_staleness", [1, 2, 4])
def test_asynchronous_steps_take_about_as_long_as_predicted(
    fleet: str, group_size: int, max_staleness: int
) -> None:
    job = a_job("Qwen3-1.7B", global_batch_size=512, max_staleness=max_staleness)
    job = replace(job, algorithm=replace(job.algorithm, group_size=group_size))
    assert 0.9 <= played_over_predicted(FLEETS[fleet], job) <= 1.2


@pytest.mark.slow
@pytest.mark.parametrize("fleet", FLEETS)
def test_synchronous_steps_take_about_as_long_as_predicted(fleet: str) -> None:
    job = a_job("Qwen3-1.7B", global_batch_size=512, mode=Mode.SYNC)
    assert 0.9 <= played_over_predicted(FLEETS[fleet], job) <= 1.2
