"""Large fleets as copies of a small one."""

from dataclasses import replace

import pytest

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.algorithm import Mode
from hetrl_core.job.spec import JobSpec, RolloutSpec
from hetrl_core.plan.plan import Plan
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.layout.layout import faults
from hetrl_planner.phase1.iterate import Searcher
from hetrl_planner.phase1.space import Space, space_of
from hetrl_planner.phase1.to_layout import layout_of
from hetrl_planner.plan_job import never, plan
from hetrl_planner.problem.goals import Fastest
from hetrl_planner.strategies.tiling import Tiling, laid_out, tiling_of
from tests.builders import a_fleet, a_job, both

FOUR_TIMES = both(
    a_fleet(a100=128, region="us"), a_fleet(l40s=64, region="us"), a_fleet(l4=64, region="eu")
)
JOB = a_job("Qwen3-1.7B", global_batch_size=1024)


def tiled(fleet: ClusterSnapshot, job: JobSpec) -> tuple[Space, Tiling]:
    space = space_of(fleet, job, runnable_only=False)
    found = tiling_of(space)
    assert found is not None
    return space, found


@pytest.mark.slow
def test_tile_is_a_small_fleet_of_the_same_kinds() -> None:
    space, tiling = tiled(FOUR_TIMES, JOB)
    assert tiling.copies == 4
    assert [site.num_gpus * 4 for site in tiling.tile.sites] == [
        site.num_gpus for site in space.sites
    ]
    assert tiling.tile.work.batch_size * 4 == space.work.batch_size


@pytest.mark.slow
def test_tile_of_what_must_run_holds_only_what_runs() -> None:
    tiling = tiling_of(space_of(FOUR_TIMES, JOB, runnable_only=True))
    assert tiling is not None
    assert tiling.tile.runnable_only


@pytest.mark.slow
def test_fewest_gpus_are_left_over() -> None:
    _, tiling = tiled(a_fleet(a100=8 * 35), JOB)
    assert tiling.copies * sum(site.num_gpus for site in tiling.tile.sites) >= 8 * 32


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(Mode))
def test_tile_layout_is_copied_and_takes_about_as_long(mode: Mode) -> None:
    job = a_job("Qwen3-1.7B", global_batch_size=1024, mode=mode)
    space, tiling = tiled(FOUR_TIMES, job)
    found = Searcher(should_stop=never, seed=1).best(tiling.tile, Fastest())
    assert found is not None
    small = Devices(snapshot=space.snapshot, sites=tiling.tile.sites)
    alone = layout_of(found.choice, small)

    layout = laid_out(alone, tiling, space)

    devices = Devices(snapshot=space.snapshot, sites=space.sites)
    assert not faults(layout, devices, num_layers=space.work.architecture.num_layers)
    assert len(layout.gpus) == 4 * len(alone.gpus)
    one = Evaluator(tiling.tile.work, small).evaluate(alone)
    every = Evaluator(space.work, devices).evaluate(layout)
    assert isinstance(one, Evaluation)
    assert isinstance(every, Evaluation)
    assert every.step_seconds == pytest.approx(one.step_seconds, rel=0.15)
    assert every.gpu_dollars_per_hour == pytest.approx(4 * one.gpu_dollars_per_hour)


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(replace(JOB, rollout=RolloutSpec(replicas=5)), id="a number of rollouts"),
        pytest.param(a_job("Qwen3-1.7B", global_batch_size=8), id="a batch too small to divide"),
    ],
)
def test_indivisible_fleet_has_no_tiling(job: JobSpec) -> None:
    odd = a_fleet(a100=8 * 23)
    assert tiling_of(space_of(odd, job, runnable_only=False)) is None


@pytest.mark.slow
def test_large_fleet_does_about_as_well_as_its_tile() -> None:
    small = both(
        a_fleet(a100=32, region="us"), a_fleet(l40s=16, region="us"), a_fleet(l4=16, region="eu")
    )
    alone = plan(small, a_job("Qwen3-1.7B", global_batch_size=256), evaluations=150)
    large = plan(FOUR_TIMES, JOB, evaluations=150)
    assert isinstance(alone, Plan)
    assert isinstance(large, Plan)
    assert large.prediction.step_seconds <= 1.2 * alone.prediction.step_seconds
