import gc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetrl_core.fleet.snapshot import ClusterSnapshot, Link
from hetrl_core.job.algorithm import Mode
from hetrl_core.job.spec import MinimiseCost, Strategy
from hetrl_core.plan.plan import Plan, Sharding, TrainingMode
from hetrl_core.task import Task
from hetrl_planner.explain.bound import bound_on
from hetrl_planner.hetrl.genome.groupings import groupings
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.layout.fit.fitting import SplitFitter
from hetrl_planner.layout.layout import Layout, PipelineStage, TaskLayout
from hetrl_planner.layout.objective import Objective
from hetrl_planner.phase1.space import space_of
from hetrl_planner.plan_job import never, plan
from hetrl_planner.problem.goals import Fastest
from hetrl_planner.strategies.repartition import repartition
from tests.builders import a_fleet, a_job, both

SMALL = both(a_fleet(a100=4, l40s=4, gpus_per_machine=4), a_fleet(l4=4, region="far"))


def made(
    fleet: ClusterSnapshot, strategy: Strategy, *, evaluations: int = 60, seed: int = 1
) -> Plan:
    job = a_job("Qwen3-1.7B", strategy=strategy, seed=seed)
    found = plan(fleet, job, evaluations=evaluations)
    assert isinstance(found, Plan)
    return found


@pytest.mark.parametrize(("count", "bell"), [(1, 1), (2, 2), (3, 5), (4, 15), (6, 203)])
def test_tasks_are_grouped_in_every_way(count: int, bell: int) -> None:
    found = list(groupings(tuple(Task)[:count]))
    assert len(found) == len(set(found)) == bell


@pytest.mark.slow
def test_auto_is_no_worse_than_phase_1() -> None:
    first = made(SMALL, Strategy.AUTO, evaluations=0)
    assert made(SMALL, Strategy.AUTO).prediction.step_seconds <= first.prediction.step_seconds


@pytest.mark.slow
@pytest.mark.parametrize(
    "strategy",
    [
        Strategy.AUTO,
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in (Strategy.HETRL, Strategy.AREAL_HEX)
        ),
    ],
)
def test_seed_fixes_the_plan(strategy: Strategy) -> None:
    assert made(SMALL, strategy, evaluations=30) == made(SMALL, strategy, evaluations=30)


@pytest.mark.slow
@given(seed=st.integers(1, 50), mode=st.sampled_from(list(Mode)))
@settings(max_examples=4)
def test_plans_stay_below_the_bound(seed: int, mode: Mode) -> None:
    job = a_job("Qwen3-1.7B", strategy=Strategy.HETRL, mode=mode, seed=seed)
    space = space_of(SMALL, job, runnable_only=False)
    found = plan(SMALL, job, evaluations=40)
    assert isinstance(found, Plan)
    step = found.prediction.step_seconds
    loose, known = bound_on(space, Fastest()), bound_on(space, Fastest(), window_seconds=step)
    assert loose
    assert known
    assert step >= known.value >= loose.value * (1 - 1e-9)
    assert found.gap == pytest.approx(1 - known.value / step)


@pytest.mark.slow
@pytest.mark.parametrize("runnable_only", [True, False])
def test_weights_that_leave_a_region_count_in_the_budget(runnable_only: bool) -> None:
    link = Link(
        source="us",
        target="eu",
        bytes_per_second=5e9,
        latency_seconds=0.01,
        egress_dollars_per_gib=0.002,
    )
    fleet = both(a_fleet(a100=4, region="us"), a_fleet(l40s=8, region="eu"), links=(link,))
    job = a_job("Qwen3-0.6B", budget=16.0)
    found = plan(fleet, job, evaluations=60, runnable_only=runnable_only)
    assert isinstance(found, Plan)
    assert found.prediction.dollars_per_hour <= 16.0 * (1 + 1e-9)


def test_additional_gpu_is_worth_something_where_scarce() -> None:
    space = space_of(SMALL, a_job("Qwen3-1.7B"), runnable_only=False)
    known = bound_on(space, Fastest())
    assert known
    assert all(worth >= 0 for worth in known.gpu_worth.values())
    assert max(known.gpu_worth.values()) > 0


def test_stop_from_outside_still_gives_a_plan() -> None:
    asked = iter([False] * 40)
    found = plan(
        SMALL, a_job("Qwen3-1.7B"), should_stop=lambda: next(asked, True), evaluations=10_000
    )
    assert isinstance(found, Plan)
    assert found.ended_by == "time"


@pytest.mark.slow
def test_evolution_spends_no_more_than_a_pace_needs() -> None:
    job = a_job("Qwen3-1.7B", objective=MinimiseCost(required_samples_per_second=20))
    first = plan(SMALL, job, evaluations=0)
    found = plan(SMALL, job, evaluations=60)
    assert isinstance(first, Plan)
    assert isinstance(found, Plan)
    assert found.prediction.dollars_per_hour <= first.prediction.dollars_per_hour
    assert found.prediction.samples_per_second >= 20 * (1 - 1e-6)


@pytest.mark.parametrize("mode", list(Mode))
def test_two_tasks_share_one_gpu_where_there_is_but_one(mode: Mode) -> None:
    found = plan(a_fleet(h100=1), replace(a_job("Qwen3-0.6B", mode=mode)), evaluations=40)
    assert isinstance(found, Plan)
    assert found.num_gpus == 1
    assert any(group.concurrency for group in found.groups_with(Task.ACTOR_GENERATION))


def test_second_phase_moves_a_pipeline_off_slow_links() -> None:
    # Each pipeline lies in one region, so gradients cross the slow link: far more than the
    # activations that would if each stage did.
    link = Link(source="east", target="west", bytes_per_second=1e9, latency_seconds=1e-4)
    fleet = both(a_fleet(h100=2, region="east"), a_fleet(h100=2, region="west"), links=(link,))
    space = space_of(fleet, a_job("Qwen3-1.7B"), runnable_only=False)
    devices = Devices(snapshot=fleet, sites=space.sites)
    evaluator = Evaluator(space.work, devices)
    objective = Objective(goal=Fastest(), limits=space.limits, devices=devices)
    mode = TrainingMode(sharding=Sharding.OPTIMIZER)
    replicas = tuple(tuple(PipelineStage((gpu,), 14) for gpu in gpus) for gpus in ((0, 1), (2, 3)))
    spread = TaskLayout(Task.ACTOR_TRAINING, replicas, mode)
    before = evaluator.training_seconds(spread)
    generation = TaskLayout(Task.ACTOR_GENERATION, ((PipelineStage((0,), 28),),))
    found = evaluator.evaluate(Layout(((spread, generation),)))
    assert isinstance(found, Evaluation)
    moved = repartition(
        found,
        evaluator,
        objective,
        evaluations=100,
        rng=np.random.default_rng(1),
        should_stop=never,
    )
    assert moved.tasks[Task.ACTOR_TRAINING].seconds < 0.7 * before


@pytest.mark.parametrize("strategy", [Strategy.HETRL, Strategy.ILP, Strategy.AREAL_HEX])
@pytest.mark.slow
def test_search_memory_is_freed_without_the_garbage_collector(
    strategy: Strategy,
) -> None:
    # A million values by the end of a large one: looking through them takes half a second.
    gc.collect()
    gc.disable()
    try:
        made(SMALL, strategy, evaluations=20)
        left = [each for each in gc.get_objects() if type(each) in {Evaluator, SplitFitter}]
    finally:
        gc.enable()
    assert not left
