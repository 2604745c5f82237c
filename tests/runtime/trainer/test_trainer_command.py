from dataclasses import replace

import pytest

from hetrl_core.podset import Rank
from hetrl_core.task import Role, Task
from hetrl_runtime.trainer import command
from tests.runtime.launches import a_launch

RANK = Rank(ordinal=0, local_gpu=0, task=Task.ACTOR_TRAINING, replica=0, stage=0, tensor_rank=0)


def test_a_pod_finds_its_own_rows_of_the_rank_table(tmp_path):
    second = replace(RANK, ordinal=1, replica=5)
    third = replace(second, local_gpu=1, tensor_rank=1)
    launch = a_launch(tmp_path, role=Role.TRAINER, ranks=(RANK, second, third))

    assert command._training_ranks(launch, 1) == [second, third]


@pytest.mark.parametrize(
    "ranks",
    [
        pytest.param((), id="none"),
        pytest.param((replace(RANK, task=Task.ACTOR_GENERATION),), id="another task"),
        pytest.param(
            (RANK, replace(RANK, task=Task.ACTOR_GENERATION)), id="another task beside training"
        ),
    ],
)
def test_ranks_that_this_release_cannot_train_are_refused(tmp_path, ranks):
    launch = a_launch(tmp_path, role=Role.TRAINER, ranks=ranks)

    with pytest.raises(ValueError, match=r"pod trainer-test-0 has .* ranks and no others"):
        command._training_ranks(launch, 0)
