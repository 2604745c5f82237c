"""Advantages against their definitions, group by group."""

import math

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
        pytest.param([7001.7] * 3, id="equal but not as their mean in single precision"),
        pytest.param([1e20] * 3, id="equal and too large for an absolute bound"),
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


def single_precision(rewards: list[float], kind: Advantage) -> list[float]:
    together = torch.zeros(len(rewards), dtype=torch.long)
    return group_advantages(torch.tensor(rewards), together, kind).tolist()


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        pytest.param([3e38, -3e38], [1, -1], id="their squares are infinite in single precision"),
        pytest.param([3e38, 3e38, -3e38], [0.707, 0.707, -1.414], id="so is their sum"),
        pytest.param([0, 1, 1e20, 1], [-0.577, -0.577, 1.732, -0.577], id="one towers over all"),
        pytest.param([1e-3, 2e-3], [-1, 1], id="small ones"),
        pytest.param([16777216.0, 16777218.0], [-1, 1], id="neighbours in single precision"),
    ],
)
def test_group_normalised_advantages_hold_rewards_of_any_size(rewards, expected):
    found = single_precision(rewards, Advantage.GROUP_NORMALISED)

    assert found == pytest.approx(expected, abs=1e-3)


def test_group_centred_advantages_hold_rewards_of_any_size():
    assert single_precision([3e38, -3e38], Advantage.GROUP_CENTRED) == pytest.approx([3e38, -3e38])


def test_advantage_that_no_float32_holds_is_infinite_not_zero():
    found = single_precision([3e38, -3e38], Advantage.LEAVE_ONE_OUT)

    assert found == [math.inf, -math.inf]
