import re
from dataclasses import replace

import pytest

from hetrl_core.job.algorithm import AlgorithmSpec, AlgorithmType
from hetrl_core.job.spec import Engine, Strategy
from hetrl_core.plan import groupings
from hetrl_core.plan.capabilities import obstacles, split_obstacle
from hetrl_core.plan.plan import Parallelism, Plan, ReplicaGroup
from hetrl_core.task import Task
from tests.builders import a_job
from tests.core.test_plan import PREDICTION, a_group

TRAINS = a_group(Task.ACTOR_TRAINING, "a", "b")
GENERATES = a_group(Task.ACTOR_GENERATION, "c", tensor=2)
TOGETHER = replace(TRAINS, tasks=(Task.ACTOR_GENERATION, Task.ACTOR_TRAINING))
WITH_CRITIC = (Task.CRITIC_INFERENCE, Task.ACTOR_TRAINING, Task.CRITIC_TRAINING)
VLLM, TRANSFORMERS = Engine.VLLM, Engine.TRANSFORMERS


def a_plan(*groups: ReplicaGroup) -> Plan:
    return Plan(strategy=Strategy.AUTO, groups=groups, prediction=PREDICTION)


def numbered(group: ReplicaGroup) -> ReplicaGroup:
    """Return a group on GPUs that are named because others are on them."""
    return replace(
        group,
        replicas=tuple(
            replace(each, shares=tuple(replace(share, first_gpu=0) for share in each.shares))
            for each in group.replicas
        ),
    )


@pytest.mark.parametrize(("tensor", "stages"), [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_training_in_any_split_and_tensor_parallel_generation_can_run(
    tensor: int, stages: int
) -> None:
    trains = a_group(Task.ACTOR_TRAINING, "a", "b", tensor=tensor, stages=stages)
    assert obstacles(a_plan(trains, GENERATES), a_job()) == ()


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        pytest.param(
            a_plan(a_group(Task.ACTOR_TRAINING, "a", tensor=16), GENERATES),
            "tp16·pp1: .* 8 key and value heads",
            id="more tensor ranks than key and value heads",
        ),
        pytest.param(
            a_plan(TRAINS, a_group(Task.ACTOR_GENERATION, "c", stages=2)),
            "without pipeline stages",
            id="stages",
        ),
        pytest.param(
            a_plan(TOGETHER, GENERATES),
            "ActorGeneration is done together with other tasks here and without them there",
            id="shared and apart",
        ),
        pytest.param(
            a_plan(replace(TOGETHER, parallelism=Parallelism(tensor=1, stage_layers=(14, 14)))),
            "ActorGeneration at tp1·pp2: .* without pipeline stages",
            id="shared, in stages",
        ),
        pytest.param(
            a_plan(TRAINS, numbered(GENERATES)), "are split differently", id="shared, cut otherwise"
        ),
        pytest.param(a_plan(TRAINS), "nothing does ActorGeneration", id="nothing generates"),
        pytest.param(
            a_plan(replace(TRAINS, tasks=WITH_CRITIC), GENERATES),
            "algorithm GRPO: the plan is another algorithm's",
            id="a critic for GRPO",
        ),
    ],
)
def test_obstacles_of_the_runtime_are_named(plan: Plan, reason: str) -> None:
    (found,) = obstacles(plan, a_job())
    assert re.search(reason, found)


def named(listed: frozenset[groupings.TaskGroup]) -> str:
    return ", ".join(sorted(groupings.named(tasks) for tasks in listed))


@pytest.mark.parametrize("listed", groupings.GROUPINGS, ids=named)
def test_listed_groupings_can_run(listed: frozenset[groupings.TaskGroup]) -> None:
    has_critic = any(Task.CRITIC_TRAINING in tasks for tasks in listed)
    kind = AlgorithmType.PPO if has_critic else AlgorithmType.GRPO
    plan = a_plan(
        *(
            replace(a_group(Task.ACTOR_TRAINING, f"machine-{number}"), tasks=tuple(tasks))
            for number, tasks in enumerate(listed)
        )
    )
    judges = any(Task.REWARD_INFERENCE in tasks for tasks in listed)
    job = a_job(algorithm=AlgorithmSpec(type=kind), has_reward_model=judges)
    assert obstacles(plan, job) == ()


@pytest.mark.parametrize("is_jobs", [False, True])
def test_reward_model_is_the_jobs_and_the_plans_or_neithers(is_jobs: bool) -> None:
    judges = () if is_jobs else (a_group(Task.REWARD_INFERENCE, "d"),)
    job = a_job(has_reward_model=is_jobs)
    (found,) = obstacles(a_plan(TRAINS, GENERATES, *judges), job)
    assert "reward model, unlike the plan" in found


def test_reference_in_two_places_is_refused() -> None:
    twice = replace(TRAINS, tasks=(Task.ACTOR_TRAINING, Task.REFERENCE_INFERENCE))
    (found,) = obstacles(a_plan(twice, GENERATES, a_group(Task.REFERENCE_INFERENCE, "d")), a_job())
    assert "ReferenceInference is done together with other tasks here" in found


def test_training_replicas_that_are_split_differently_are_refused() -> None:
    other = a_group(Task.ACTOR_TRAINING, "d", tensor=2)
    (found,) = obstacles(a_plan(TRAINS, other, GENERATES), a_job())
    assert "must be split alike" in found


CRITIC = (Task.CRITIC_INFERENCE, Task.CRITIC_TRAINING)
SIX = tuple(Task)


@pytest.mark.parametrize(
    ("critic", "reason"),
    [
        pytest.param(
            (a_group(Task.CRITIC_TRAINING, "d", tensor=2, stages=2),), "", id="cut otherwise"
        ),
        pytest.param(
            (a_group(Task.CRITIC_TRAINING, "d", tensor=16),), "8 key and value heads", id="too fine"
        ),
        pytest.param(
            (a_group(Task.CRITIC_TRAINING, "d"), a_group(Task.CRITIC_TRAINING, "e", tensor=2)),
            "CriticTraining in 2 ways",
            id="in two ways",
        ),
    ],
)
def test_critic_apart_may_be_split_unlike_its_policy_but_uniformly(
    critic: tuple[ReplicaGroup, ...], reason: str
) -> None:
    job = a_job(algorithm=AlgorithmSpec(type=AlgorithmType.PPO))
    found = obstacles(
        a_plan(TRAINS, GENERATES, *(replace(each, tasks=CRITIC) for each in critic)), job
    )
    assert len(found) == bool(reason)
    assert all(reason in each for each in found)


@pytest.mark.parametrize("task", CRITIC)
def test_critic_is_asked_where_it_is_trained(task: Task) -> None:
    other = next(each for each in CRITIC if each is not task)
    trains = replace(TRAINS, tasks=(Task.ACTOR_TRAINING, other))
    job = a_job(algorithm=AlgorithmSpec(type=AlgorithmType.PPO))
    assert any(
        f"{task} apart from {other}" in each
        for each in obstacles(a_plan(trains, GENERATES, a_group(task, "d")), job)
    )


@pytest.mark.parametrize("tasks", [SIX, tuple(each for each in SIX if each not in CRITIC)])
def test_unlisted_grouping_is_refused(tasks: tuple[Task, ...]) -> None:
    kind = AlgorithmType.PPO if Task.CRITIC_TRAINING in tasks else AlgorithmType.GRPO
    job = a_job(algorithm=AlgorithmSpec(type=kind), has_reward_model=True)
    for groups in groupings.partitions(tasks):
        plan = a_plan(
            *(
                replace(a_group(Task.ACTOR_TRAINING, f"machine-{number}"), tasks=tuple(group))
                for number, group in enumerate(groups)
            )
        )
        assert bool(obstacles(plan, job)) is (groupings.grouping(groups) not in groupings.GROUPINGS)


def test_ppo_without_a_critic_is_refused() -> None:
    job = a_job(algorithm=AlgorithmSpec(type=AlgorithmType.PPO))
    (found,) = obstacles(a_plan(TRAINS, GENERATES), job)
    assert "algorithm PPO" in found


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
        pytest.param(Task.REFERENCE_INFERENCE, 4, 1, TRANSFORMERS, "", id="a reference, tp"),
        pytest.param(Task.REFERENCE_INFERENCE, 1, 2, VLLM, "pipeline stages", id="a reference, pp"),
    ],
)
def test_split_runs_or_the_plan_says_why_not(
    task: Task, tensor: int, stages: int, engine: Engine, reason: str
) -> None:
    split = Parallelism(tensor=tensor, stage_layers=(4,) * stages)
    assert re.search(reason or "^$", split_obstacle(task, split, engine, None))

    others = (
        a_group(each, f"of {each}")
        for each in (Task.ACTOR_TRAINING, Task.ACTOR_GENERATION)
        if each is not task
    )
    group = a_group(task, "a", tensor=tensor, stages=stages)
    found = obstacles(a_plan(group, *others), a_job(engine=engine))
    assert bool(found) == bool(reason)
    assert all(reason in each for each in found)
