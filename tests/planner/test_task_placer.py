"""Pipelines laid on machines: no other division of their layers would be faster."""

import pytest

from hetrl_core.plan.plan import Recompute, Sharding, TrainingMode
from hetrl_core.task import Task
from hetrl_planner.hetrl.genome.assigned_gpus import Room
from hetrl_planner.hetrl.genome.training_placement import TaskPlacer
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.fit.fitting import SplitFitter
from hetrl_planner.layout.layout import PipelineStage, TaskLayout
from tests.planner.oracle.instances import instance

MODE = TrainingMode(recompute=Recompute.NONE, sharding=Sharding.NONE)
APART = 1040
"""A seed of three machines in three regions, so far apart that what a stage sends takes as long
as a layer."""


def two_stages(gpus: tuple[int, int], layers: tuple[int, int]) -> TaskLayout:
    stages = tuple(PipelineStage((gpu,), count) for gpu, count in zip(gpus, layers, strict=True))
    return TaskLayout(Task.ACTOR_TRAINING, (stages,), MODE)


@pytest.mark.parametrize("gpus", [(0, 1), (1, 0)], ids=str)
def test_stage_that_sends_far_has_fewer_layers(gpus: tuple[int, int]) -> None:
    drawn = instance(APART, algorithm="PPO", is_synchronous=False)
    evaluator = Evaluator(drawn.work, drawn.devices)
    laid = TaskPlacer(SplitFitter(drawn.work, drawn.devices)).staged(
        Task.ACTOR_TRAINING, [[(gpu,)] for gpu in gpus], MODE, Room()
    )
    assert laid is not None
    num_layers = drawn.work.architecture.num_layers
    fastest = min(
        evaluator.training_seconds(two_stages(gpus, (first, num_layers - first)))
        for first in range(1, num_layers)
    )
    assert evaluator.training_seconds(laid) == pytest.approx(fastest)
