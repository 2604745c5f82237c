import re
from dataclasses import replace

import pytest

from hetrl_core.capabilities import obstacles, split_obstacle
from hetrl_core.job import AlgorithmSpec, AlgorithmType, Engine, Strategy
from hetrl_core.plan import Parallelism, Plan, ReplicaGroup
from hetrl_core.task import Task
from tests.builders import a_job
from tests.core.test_plan import PREDICTION, a_group

TRAINS = a_group(Task.ACTOR_TRAINING, "a", "b")
GENERATES = a_group(Task.ACTOR_GENERATION, "c", tensor=2)
VLLM, TRANSFORMERS = Engine.VLLM, Engine.TRANSFORMERS


def a_plan(*groups: ReplicaGroup) -> Plan:
    return Plan(strategy=Strategy.AUTO, groups=groups, prediction=PREDICTION)


@pytest.mark.parametrize(("tensor", "stages"), [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_training_in_any_split_and_tensor_parallel_generation_can_run(
    tensor: int, stages: int
) -> None:
    trains = a_group(Task.ACTOR_TRAINING, "a", "b", tensor=tensor, stages=stages)
    assert obstacles(a_plan(trains, GENERATES), a_job()) == ()


@pytest.mark.parametrize(
    ("group", "reason"),
    [
        pytest.param(
            a_group(Task.ACTOR_TRAINING, "a", tensor=16), "tp16·pp1: .* 8 key and value heads",
            id="more tensor ranks than key and value heads",
        ),
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
    (found,) = obstacles(a_plan(group), a_job())
    assert re.search(reason, found)


def test_training_replicas_that_are_split_differently_are_refused() -> None:
    other = a_group(Task.ACTOR_TRAINING, "d", tensor=2)
    (found,) = obstacles(a_plan(TRAINS, other, GENERATES), a_job())
    assert "must be split alike" in found


def test_ppo_is_an_obstacle_whatever_the_plan() -> None:
    job = a_job(algorithm=AlgorithmSpec(type=AlgorithmType.PPO))
    (found,) = obstacles(a_plan(TRAINS, GENERATES), job)
    assert "without a critic" in found


@pytest.mark.parametrize(
    ("task", "tensor", "stages", "engine", "reason"),
    [
        pytest.param(Task.ACTOR_TRAINING, 1, 1, VLLM, "", id="training on one GPU"),
        pytest.param(Task.ACTOR_TRAINING, 2, 1, VLLM, "", id="training, tp"),
        pytest.param(Task.ACTOR_TRAINING, 1, 2, VLLM, "", id="training, pp"),
        pytest.param(Task.ACTOR_GENERATION, 1, 1, VLLM, "", id="vllm on one GPU"),
        pytest.param(Task.ACTOR_GENERATION, 8, 1, VLLM, "", id="vllm, tp"),
        pytest.param(Task.ACTOR_GENERATION, 1, 2, VLLM, "pipeline stages", id="vllm, pp"),
        pytest.param(Task.ACTOR_GENERATION, 2, 2, VLLM, "pipeline stages", id="vllm, both"),
        pytest.param(Task.ACTOR_GENERATION, 1, 1, TRANSFORMERS, "", id="transformers on one GPU"),
        pytest.param(
            Task.ACTOR_GENERATION, 2, 1, TRANSFORMERS, "engine transformers", id="transformers, tp"
        ),
        pytest.param(
            Task.ACTOR_GENERATION, 1, 2, TRANSFORMERS, "pipeline stages", id="transformers, pp"
        ),
        pytest.param(
            Task.REFERENCE_INFERENCE, 2, 1, TRANSFORMERS, "", id="the reference has no engine"
        ),
    ],
)
def test_a_split_runs_or_the_plan_says_why_not(
    task: Task, tensor: int, stages: int, engine: Engine, reason: str
) -> None:
    split = Parallelism(tensor=tensor, stage_layers=(4,) * stages)
    assert re.search(reason or "^$", split_obstacle(task, split, engine, None))

    found = obstacles(
        a_plan(a_group(task, "a", tensor=tensor, stages=stages)), a_job(engine=engine)
    )
    assert bool(found) == bool(reason)
    assert all(reason in each for each in found)
