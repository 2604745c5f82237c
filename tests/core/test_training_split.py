from dataclasses import replace

import pytest

from hetrl_core.job.spec import Strategy
from hetrl_core.plan.plan import REPLICATED, Parallelism, Plan, ReplicaGroup
from hetrl_core.plan.pod_sets import pod_sets
from hetrl_core.plan.training_split import UNDIVIDED, TrainingSplit, critic_split, training_split
from hetrl_core.task import Task
from tests.core.test_plan import PREDICTION, a_group


def a_plan(*groups: ReplicaGroup) -> Plan:
    return Plan(strategy=Strategy.AUTO, groups=groups, prediction=PREDICTION)


def shared(group: ReplicaGroup, *shares: float) -> ReplicaGroup:
    replicas = zip(group.replicas, shares, strict=True)
    return replace(
        group, replicas=tuple(replace(each, work_share=share) for each, share in replicas)
    )


def test_shares_are_in_the_order_of_the_rank_table() -> None:
    fast = shared(a_group(Task.ACTOR_TRAINING, "a", "b", tensor=2, stages=2), 0.4, 0.35)
    slow = shared(a_group(Task.ACTOR_TRAINING, "c", tensor=2, stages=2), 0.25)
    plan = a_plan(fast, a_group(Task.ACTOR_GENERATION, "d"), slow)

    found = training_split(plan)

    assert found == TrainingSplit(
        shares=(0.4, 0.35, 0.25), stage_layers=(4, 4), tensor=2, mode=REPLICATED
    )
    ranks = [rank for pods in pod_sets(plan) for rank in pods.ranks]
    trained = {
        (rank.replica, rank.stage, rank.tensor_rank)
        for rank in ranks
        if rank.task is Task.ACTOR_TRAINING
    }
    assert len(trained) == found.num_ranks == 12


def test_single_stage_needs_no_number_of_layers() -> None:
    plan = a_plan(a_group(Task.ACTOR_TRAINING, "a"))
    assert training_split(plan) == UNDIVIDED


CRITIC = (Task.CRITIC_INFERENCE, Task.CRITIC_TRAINING)


def test_critic_on_own_gpus_has_its_own_split() -> None:
    critic = replace(
        shared(a_group(Task.CRITIC_TRAINING, "b", "c", tensor=2), 0.75, 0.25), tasks=CRITIC
    )
    policy = a_group(Task.ACTOR_TRAINING, "a", stages=2)
    for groups in ((policy, critic), (critic, policy)):
        plan = a_plan(*groups)
        assert training_split(plan) == TrainingSplit(stage_layers=(4, 4))
        assert critic_split(plan) == TrainingSplit(shares=(0.75, 0.25), tensor=2)


@pytest.mark.parametrize("tasks", [(), CRITIC], ids=["no critic", "in its policy's processes"])
def test_critic_that_is_not_apart_has_no_split(tasks: tuple[Task, ...]) -> None:
    policy = replace(a_group(Task.ACTOR_TRAINING, "a"), tasks=(Task.ACTOR_TRAINING, *tasks))
    assert critic_split(a_plan(policy)) is None


def test_replicas_of_a_critic_that_are_split_differently_are_refused() -> None:
    groups = [
        replace(a_group(Task.CRITIC_TRAINING, name, tensor=tensor), tasks=CRITIC)
        for name, tensor in (("b", 1), ("c", 2))
    ]
    with pytest.raises(ValueError, match="must be split alike"):
        critic_split(a_plan(a_group(Task.ACTOR_TRAINING, "a"), *groups))


@pytest.mark.parametrize(
    "groups",
    [
        pytest.param((a_group(Task.ACTOR_GENERATION, "a"),), id="nothing trains"),
        pytest.param(
            (
                a_group(Task.ACTOR_TRAINING, "a", stages=2),
                replace(
                    a_group(Task.ACTOR_TRAINING, "b", stages=2),
                    parallelism=Parallelism(tensor=1, stage_layers=(5, 3)),
                ),
            ),
            id="stages of other layers",
        ),
    ],
)
def test_training_that_is_not_split_alike_is_refused(groups: tuple[ReplicaGroup, ...]) -> None:
    with pytest.raises(ValueError, match="must be split alike"):
        training_split(a_plan(*groups))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"shares": ()}, "share > 0"),
        ({"shares": (1.0, 0.0)}, "share > 0"),
        ({"tensor": 0}, "tensor parallelism must be >= 1"),
        ({"stage_layers": (2, 0)}, "needs a layer"),
    ],
)
def test_split_without_sense_is_refused(fields: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        TrainingSplit(**fields)  # type: ignore[arg-type]
