"""The order of evaluated layouts: excess over limits first, then the goal, then the price."""

from typing import Any

import pytest

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import PoolSpec, ResourcesSpec
from hetrl_core.plan.plan import REPLICATED
from hetrl_core.task import Task
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.evaluation import Evaluation, Misfit
from hetrl_planner.layout.layout import Layout, PipelineStage, TaskLayout
from hetrl_planner.layout.objective import Objective
from hetrl_planner.problem.goals import (
    DOLLARS_PER_GPU,
    Cheapest,
    Fastest,
    FewestGpus,
    Goal,
    Limits,
)
from hetrl_planner.problem.sites import sites
from tests.builders import a_kind, machines_of


def evaluation(**changes: Any) -> Evaluation:
    """A layout of one trainer and three rollouts at $20 an hour and ten seconds a step."""
    whole = [(PipelineStage((gpu,), 28),) for gpu in range(4)]
    layout = Layout(
        (
            (TaskLayout(Task.ACTOR_TRAINING, (whole[0],), REPLICATED),),
            (TaskLayout(Task.ACTOR_GENERATION, tuple(whole[1:])),),
        )
    )
    fields: dict[str, Any] = {
        "layout": layout,
        "step_seconds": 10.0,
        "tasks": {},
        "training_side_seconds": 5.0,
        "weight_sync_seconds": 1.0,
        "running": 16.0,
        "gpu_dollars_per_hour": 20.0,
        "egress_dollars_per_step": 0.0,
        "mean_staleness": 1.0,
        "bottleneck": "generation",
        **changes,
    }
    return Evaluation(**fields)


def objective(
    goal: Goal | None = None, *, pool_max_gpus: int | None = None, **limits: float
) -> Objective:
    """An objective on four L4s of one pool."""
    pool = PoolSpec(name="edge", max_gpus=pool_max_gpus)
    machines = tuple(machines_of("L4", 4, gpus_per_machine=2, pool="edge"))
    fleet = ClusterSnapshot(gpu_kinds=(a_kind("L4"),), machines=machines)
    fields: dict[str, Any] = {
        "budget_dollars_per_hour": None,
        "max_gpus": None,
        "min_replicas": 1,
        "max_replicas": None,
        **limits,
    }
    return Objective(
        goal=goal or Fastest(),
        limits=Limits(**fields),
        devices=Devices(snapshot=fleet, sites=sites(fleet, ResourcesSpec(pools=(pool,)))),
    )


@pytest.mark.parametrize(
    ("limits", "excess"),
    [
        pytest.param({}, 0.0, id="no limit"),
        pytest.param({"budget_dollars_per_hour": 20}, 0.0, id="as dear as it may be"),
        pytest.param({"budget_dollars_per_hour": 20 - 1e-9}, 0.0, id="dearer by a rounding error"),
        pytest.param({"budget_dollars_per_hour": 16}, 0.25, id="dearer by a quarter"),
        pytest.param({"budget_dollars_per_hour": 0}, 20.0, id="dollars where none may be spent"),
        pytest.param({"max_gpus": 4}, 0.0, id="as many GPUs as it may have"),
        pytest.param({"max_gpus": 2}, 1.0, id="twice as many GPUs"),
        pytest.param({"max_replicas": 2}, 0.5, id="half more rollouts"),
        pytest.param({"min_replicas": 3}, 0.0, id="as few rollouts as it may have"),
        pytest.param({"min_replicas": 4}, 0.25, id="a quarter of the rollouts missing"),
        pytest.param({"pool_max_gpus": 4}, 0.0, id="as many GPUs of the pool as it may have"),
        pytest.param({"pool_max_gpus": 2}, 1.0, id="twice as many GPUs of the pool"),
        pytest.param({"max_gpus": 2, "max_replicas": 2}, 1.5, id="two limits add up"),
        pytest.param({"goal": Cheapest(10.0)}, 0.0, id="as slow as it may be"),
        pytest.param({"goal": Cheapest(8.0)}, 0.25, id="slower than the price is asked for"),
        pytest.param({"goal": FewestGpus(5.0)}, 1.0, id="slower than few GPUs are asked for"),
    ],
)
def test_excess_is_the_sum_of_shares_over_the_limits(limits: dict[str, Any], excess: float) -> None:
    assert objective(**limits).excess(evaluation()) == pytest.approx(excess)


@pytest.mark.parametrize(
    ("goal", "value"),
    [
        pytest.param(Fastest(), 10.0, id="seconds of a step"),
        pytest.param(FewestGpus(10.0), 4.0, id="GPUs"),
        pytest.param(Cheapest(10.0), 20.0 + 4 * DOLLARS_PER_GPU, id="dollars, and a little a GPU"),
    ],
)
def test_value_is_that_of_the_goal(goal: Goal, value: float) -> None:
    assert objective(goal).value(evaluation()) == pytest.approx(value)


def test_scores_order_layouts_by_limits_then_goal_then_price() -> None:
    worst_first = [
        None,
        Misfit("memory", excess=1.5),
        Misfit("memory", excess=1.1),
        evaluation(gpu_dollars_per_hour=40.0, step_seconds=1.0),
        evaluation(gpu_dollars_per_hour=30.0, step_seconds=20.0),
        evaluation(gpu_dollars_per_hour=20.0, step_seconds=20.0),
        evaluation(gpu_dollars_per_hour=20.0),
        evaluation(gpu_dollars_per_hour=10.0),
    ]
    order = objective(budget_dollars_per_hour=20.0)
    scores = [order.score(each) for each in worst_first]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == len(scores)
