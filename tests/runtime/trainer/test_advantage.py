"""Advantages against their definitions, group by group."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from hetrl_core.job.algorithm import Advantage
from hetrl_runtime.trainer.losses.advantage import group_advantages

REWARDS = st.lists(st.floats(-10, 10).map(lambda reward: round(reward, 2)), min_size=2, max_size=24)
KINDS = st.sampled_from(Advantage)


def advantages_of(rewards: list[float], groups: Tensor, kind: Advantage) -> Tensor:
    return group_advantages(torch.tensor(rewards, dtype=torch.float64), groups, kind)


@given(rewards=REWARDS, size=st.integers(1, 8), kind=KINDS)
def test_advantages_sum_to_zero_over_every_group(rewards, size, kind):
    groups = torch.arange(len(rewards)) // size

    advantages = advantages_of(rewards, groups, kind)

    sums = torch.zeros(int(groups.max()) + 1, dtype=torch.float64).index_add(0, groups, advantages)
    assert sums.abs().max() < 1e-3


@given(rewards=REWARDS, shift=st.floats(-5, 5), kind=KINDS)
def test_advantages_ignore_reward_offset_and_order(rewards, shift, kind):
    groups = torch.arange(len(rewards)) % 3

    advantages = advantages_of(rewards, groups, kind)
    shifted = advantages_of([reward + shift for reward in rewards], groups, kind)
    turned = advantages_of(rewards[::-1], groups.flip(0), kind)

    assert torch.allclose(shifted, advantages, atol=1e-6)
    assert torch.allclose(turned.flip(0), advantages)


@given(rewards=REWARDS)
def test_leave_one_out_subtracts_the_mean_of_the_others(rewards):
    together = torch.zeros(len(rewards), dtype=torch.long)

    found = advantages_of(rewards, together, Advantage.LEAVE_ONE_OUT)

    others = [(sum(rewards) - each) / (len(rewards) - 1) for each in rewards]
    expected = [each - mean for each, mean in zip(rewards, others, strict=True)]
    assert found.tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Advantage.GROUP_NORMALISED, [3**0.5, *3 * (-(3**-0.5),)]),
        (Advantage.GROUP_CENTRED, [3 / 4, *3 * (-1 / 4,)]),
        (Advantage.LEAVE_ONE_OUT, [1, *3 * (-1 / 3,)]),
    ],
)
def test_single_right_answer_of_four_has_the_published_advantages(kind, expected):
    assert advantages_of([1, 0, 0, 0], torch.zeros(4, dtype=torch.long), kind).tolist() == (
        pytest.approx(expected)
    )


@pytest.mark.parametrize("kind", Advantage)
@pytest.mark.parametrize(
    "rewards",
    [
        pytest.param([1, 1, 1, 1], id="all right"),
        pytest.param([0.1] * 4, id="equal but not exact in binary"),
        pytest.param([5], id="a group of one"),
    ],
)
def test_group_that_says_nothing_moves_nothing(rewards, kind):
    together = torch.zeros(len(rewards), dtype=torch.long)

    assert advantages_of(rewards, together, kind).tolist() == [0] * len(rewards)


@pytest.mark.parametrize("kind", Advantage)
def test_groups_are_compared_apart(kind):
    apart = advantages_of([1, 5, 0, 9], torch.tensor([0, 1, 0, 1]), kind)
    alone = [
        advantages_of(each, torch.zeros(2, dtype=torch.long), kind) for each in ([1, 0], [5, 9])
    ]

    assert apart.tolist() == pytest.approx(torch.stack(alone, dim=1).flatten().tolist())
