import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hetrl_runtime.trainer.batch import Batch, collate, minibatches, packed_passes, padded_passes
from tests.runtime.trainer.trajectories import a_trajectory


def of_lengths(*lengths: tuple[int, int]) -> Batch:
    """A batch of trajectories of these prompt and response lengths, of one group."""
    return collate(
        [
            a_trajectory(member=member, prompt=[1] * prompt, response=[2] * response)
            for member, (prompt, response) in enumerate(lengths)
        ],
        rewards=[float(member) for member in range(len(lengths))],
    )


def test_responses_of_all_trajectories_begin_in_one_column():
    batch = collate(
        [
            a_trajectory(prompt=[1], response=[2, 3, 4], log_probs=[-1, -2, -3], reward=1),
            a_trajectory(member=1, prompt=[5, 6], response=[7], log_probs=[-4]),
        ],
        rewards=[1.0, 0.0],
    )

    assert batch.tokens_BT.tolist() == [[0, 1, 2, 3, 4], [5, 6, 7, 0, 0]]
    assert batch.is_token_BT.tolist() == [[False, True, True, True, True], [True] * 3 + [False] * 2]
    assert batch.responses_BR.tolist() == [[2, 3, 4], [7, 0, 0]]
    assert batch.behaviour_BR.tolist() == [[-1, -2, -3], [-4, 0, 0]]
    assert batch.rewards_B.tolist() == [1, 0]
    assert batch.num_tokens == 4


def test_tool_output_is_computed_and_not_trained_on():
    batch = collate(
        [
            a_trajectory(prompt=[1], response=[2, 3, 4, 5], versions=[6, -1, -1, 7]),
            a_trajectory(member=1, prompt=[1], response=[8, 9]),
        ],
        rewards=[1.0, 0.0],
    )

    assert batch.mask_BR.tolist() == [[True, False, False, True], [True, True, False, False]]
    assert batch.is_token_BT.tolist() == [[True] * 5, [True] * 3 + [False] * 2]
    assert batch.lengths_B.tolist() == [4, 2]
    assert (batch.num_tokens, batch.num_places) == (4, 1 + 3 + 1)
    widened = batch.rows(torch.tensor([0])).padded(2, 3, 5)
    assert widened.mask_BR.tolist() == [[True, False, False, True, False], [False] * 5]
    assert widened.trimmed().mask_BR.tolist()[0] == [True, False, False, True]


def test_groups_are_numbered_in_the_order_in_which_they_come():
    trajectories = [a_trajectory(group=group, member=0) for group in (40, 7, 40, 7)]

    batch = collate(trajectories, rewards=[1.0, 5.0, 0.0, 5.0])

    assert batch.groups_B.tolist() == [0, 1, 0, 1]


def test_batch_without_trajectories_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        collate([], rewards=[])


def test_trimming_removes_columns_that_are_all_padding():
    batch = of_lengths((4, 6), (2, 3), (1, 2))

    trimmed = batch.rows(torch.tensor([1, 2])).trimmed()

    assert trimmed.tokens_BT.tolist() == [[1, 1, 2, 2, 2], [0, 1, 2, 2, 0]]
    assert trimmed.num_response_positions == 3


@given(size=st.integers(1, 40), count=st.integers(1, 8), version=st.integers(0, 99))
def test_minibatches_are_a_partition_into_nearly_equal_parts(size, count, version):
    batch = of_lengths(*[(1, 1)] * size)

    parts = [rows.tolist() for rows in minibatches(batch, count=count, seed=1, version=version)]

    assert sorted(row for part in parts for row in part) == list(range(size))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert len(parts) == min(count, size)


def test_minibatches_follow_from_seed_and_version():
    batch = of_lengths(*[(1, 1)] * 30)

    def order(seed: int, version: int) -> list[list[int]]:
        return [rows.tolist() for rows in minibatches(batch, count=2, seed=seed, version=version)]

    assert order(1, 5) == order(1, 5)
    assert order(1, 5) != order(1, 6)
    assert order(1, 5) != order(2, 5)


@given(
    lengths=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=30),
    max_tokens=st.integers(1, 60),
)
@pytest.mark.parametrize(
    ("cut", "size"),
    [
        pytest.param(packed_passes, lambda part: part.num_places, id="packed"),
        pytest.param(padded_passes, lambda part: part.trimmed().tokens_BT.numel(), id="padded"),
    ],
)
@pytest.mark.slow
def test_passes_are_a_partition_that_keeps_to_its_limit(cut, size, lengths, max_tokens):
    batch = of_lengths(*lengths)

    parts = list(cut(batch, torch.arange(len(batch)), max_tokens=max_tokens))

    assert sorted(int(row) for part in parts for row in part) == list(range(len(batch)))
    for part in parts:
        assert size(batch.rows(part)) <= max_tokens or len(part) == 1
