import re
from dataclasses import replace

import pytest

from hetrl_core.capabilities import can_split, obstacles
from hetrl_core.job import AlgorithmSpec, AlgorithmType, Strategy
from hetrl_core.plan import Parallelism, Plan, ReplicaGroup
from hetrl_core.task import Task
from tests.core.test_plan import PREDICTION, a_group

GRPO = AlgorithmSpec()
TRAINS = a_group(Task.ACTOR_TRAINING, "a", "b")
GENERATES = a_group(Task.ACTOR_GENERATION, "c", tensor=2)


def a_plan(*groups: ReplicaGroup) -> Plan:
    return Plan(strategy=Strategy.AUTO, groups=groups, prediction=PREDICTION)


def test_data_parallel_training_and_tensor_parallel_generation_can_run() -> None:
    assert obstacles(a_plan(TRAINS, GENERATES), GRPO) == ()


@pytest.mark.parametrize(
    ("group", "reason"),
    [
        pytest.param(a_group(Task.ACTOR_TRAINING, "a", tensor=2), "tp2·pp1: .* one GPU", id="tp"),
        pytest.param(a_group(Task.ACTOR_TRAINING, "a", stages=2), "tp1·pp2: .* one GPU", id="pp"),
        pytest.param(
            a_group(Task.ACTOR_GENERATION, "a", stages=2), "without pipeline stages", id="stages"
        ),
        pytest.param(
            replace(TRAINS, tasks=(Task.ACTOR_TRAINING, Task.ACTOR_GENERATION)),
            "ActorTraining and ActorGeneration on shared GPUs", id="shared",
        ),
    ],
)  # fmt: skip
def test_what_the_runtime_cannot_do_is_said(group: ReplicaGroup, reason: str) -> None:
    (found,) = obstacles(a_plan(group), GRPO)
    assert re.search(reason, found)


def test_ppo_is_an_obstacle_whatever_the_plan() -> None:
    (found,) = obstacles(a_plan(TRAINS, GENERATES), AlgorithmSpec(type=AlgorithmType.PPO))
    assert "without a critic" in found


@pytest.mark.parametrize("task", [Task.ACTOR_TRAINING, Task.ACTOR_GENERATION])
@pytest.mark.parametrize(("tensor", "stages"), [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_a_split_that_may_be_planned_meets_no_obstacle(
    task: Task, tensor: int, stages: int
) -> None:
    split = Parallelism(tensor=tensor, stage_layers=(4,) * stages)
    group = a_group(task, "a", tensor=tensor, stages=stages)
    assert can_split(task, split) == (not obstacles(a_plan(group), GRPO))
