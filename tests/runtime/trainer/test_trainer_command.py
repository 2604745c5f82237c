from dataclasses import replace

import pytest

from hetrl_core.job.algorithm import AlgorithmSpec, AlgorithmType
from hetrl_core.plan.groupings import TRAINS, TRAINS_CRITIC, named
from hetrl_core.plan.pod_sets import Rank
from hetrl_core.plan.training_split import UNDIVIDED
from hetrl_core.task import Role, Task
from hetrl_runtime.pod_commands.colocated import colocated_programs
from hetrl_runtime.trainer import program
from tests.runtime.launches import a_launch

RANK = Rank(ordinal=0, local_gpu=0, task=Task.ACTOR_TRAINING, replica=0, stage=0, tensor_rank=0)


def test_pod_finds_its_own_rows_of_the_rank_table(tmp_path):
    second = replace(RANK, ordinal=1, replica=5)
    third = replace(second, local_gpu=1, tensor_rank=1)
    launch = a_launch(tmp_path, role=Role.TRAINER, ranks=(RANK, second, third))

    assert program.training_ranks(launch, 1) == [second, third]


@pytest.mark.parametrize(
    "ranks",
    [
        pytest.param((), id="none"),
        pytest.param((replace(RANK, task=Task.ACTOR_GENERATION),), id="another task"),
        pytest.param(
            (RANK, replace(RANK, task=Task.CRITIC_INFERENCE)), id="half of a critic beside training"
        ),
    ],
)
def test_ranks_that_this_release_cannot_train_are_refused(tmp_path, ranks):
    launch = a_launch(tmp_path, role=Role.TRAINER, ranks=ranks)

    with pytest.raises(ValueError, match=r"pod trainer-test-0 has .* ranks; a trainer's pod has"):
        program.training_ranks(launch, 0)


@pytest.mark.parametrize("tasks", TRAINS, ids=named)
def test_training_groups_have_one_process_per_gpu(tmp_path, tasks):
    ranks = tuple(replace(RANK, task=task, local_gpu=gpu) for gpu in range(2) for task in tasks)
    kind = AlgorithmType.PPO if Task.CRITIC_TRAINING in tasks else AlgorithmType.GRPO
    launch = a_launch(tmp_path, role=Role.TRAINER, ranks=ranks, algorithm=AlgorithmSpec(type=kind))

    assert program.training_ranks(launch, 0) == [RANK, replace(RANK, local_gpu=1)]


def test_critic_without_ppo_is_refused(tmp_path):
    ranks = tuple(replace(RANK, task=task) for task in TRAINS[-1])
    launch = a_launch(tmp_path, role=Role.TRAINER, ranks=ranks)

    with pytest.raises(ValueError, match=r"algorithm GRPO has no critic"):
        program.training_ranks(launch, 0)


@pytest.mark.parametrize("tasks", TRAINS_CRITIC, ids=named)
def test_critic_apart_has_processes_of_its_own(tmp_path, tasks):
    ranks = tuple(replace(RANK, task=task) for task in tasks)
    launch = a_launch(
        tmp_path,
        role=Role.TRAINER,
        ranks=ranks,
        critic_split=UNDIVIDED,
        algorithm=AlgorithmSpec(type=AlgorithmType.PPO),
    )

    (found,) = program.training_ranks(launch, 0)

    assert found.task is Task.CRITIC_TRAINING


def test_generation_and_rewards_on_the_same_gpus_are_other_programs(tmp_path):
    beside = (Task.ACTOR_GENERATION, Task.REWARD_INFERENCE)
    ranks = (RANK, *(replace(RANK, task=task) for task in beside))
    launch = a_launch(tmp_path, role=Role.TRAINER, ranks=ranks, more_metrics_ports=(9091,))

    assert program.training_ranks(launch, 0) == [RANK]
    rollout, inference = (each.args[0] for each in colocated_programs(launch, 0))
    assert (rollout.role, rollout.pod_set) == (Role.ROLLOUT, "trainer-test-rollout")
    assert (inference.role, inference.pod_set) == (Role.INFERENCE, "trainer-test-inference")
    # Where no port is left, any free one does.
    assert (rollout.metrics_port, inference.metrics_port) == (9091, 0)
