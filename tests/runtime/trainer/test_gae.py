"""Generalised advantages against their definition, a sum over what follows."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from hetrl_runtime.trainer.losses.gae import generalised_advantages, rewards_at_the_end, whitened

SEEDS = st.integers(0, 2**32 - 1)


def some_tensors(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rewards, values, and a mask with gaps: three trajectories, six positions."""
    generator = torch.Generator().manual_seed(seed)
    rewards, values = (torch.randn(3, 6, generator=generator, dtype=torch.float64) for _ in "rv")
    return rewards, values, torch.rand(3, 6, generator=generator) < 0.7


def by_definition(
    rewards: list[float], values: list[float], *, discount: float, trace_decay: float
) -> list[float]:
    """Σ_k (γλ)^k δ_{t+k} over the tokens alone."""
    later = [*values[1:], 0.0][: len(values)]
    errors = [r + discount * n - v for r, n, v in zip(rewards, later, values, strict=True)]
    decay = discount * trace_decay
    return [sum(decay**k * error for k, error in enumerate(errors[t:])) for t in range(len(errors))]


@given(seed=SEEDS, discount=st.floats(0, 1), trace_decay=st.floats(0, 1))
def test_tokens_get_the_discounted_errors_that_follow(seed, discount, trace_decay):
    rewards, values, mask = some_tensors(seed)

    found = generalised_advantages(
        rewards, values, mask, discount=discount, trace_decay=trace_decay
    )

    for row, is_token in enumerate(mask):
        expected = by_definition(
            rewards[row, is_token].tolist(),
            values[row, is_token].tolist(),
            discount=discount,
            trace_decay=trace_decay,
        )
        assert found.advantages_BR[row, is_token].tolist() == pytest.approx(expected)
    assert torch.allclose(found.returns_BR[mask], (found.advantages_BR + values)[mask])
    assert not found.advantages_BR[~mask].any()
    assert not found.returns_BR[~mask].any()


def test_critic_that_knows_everything_leaves_no_advantage():
    mask = torch.tensor([[True, True, True, False]])
    values = torch.tensor([[0.7, 0.7, 0.7, math.nan]])

    found = generalised_advantages(
        rewards_at_the_end(torch.tensor([0.7]), mask), values, mask, discount=1.0, trace_decay=0.95
    )

    assert found.advantages_BR.abs().max() < 1e-6


def test_padding_is_never_read_even_if_not_a_number():
    mask = torch.tensor([[True, False, True, False]])
    odd = torch.tensor([[1.0, math.nan, 2.0, math.inf]])
    plain = odd.masked_fill(~mask, 0.0)

    found, expected = (
        generalised_advantages(each, each, mask, discount=0.9, trace_decay=0.9)
        for each in (odd, plain)
    )

    assert torch.equal(found.advantages_BR, expected.advantages_BR)
    assert torch.equal(found.returns_BR, expected.returns_BR)
    assert torch.equal(whitened(odd, mask), whitened(plain, mask))


def test_reward_stands_at_the_last_token():
    mask = torch.tensor([[True, True, False, False], [True, False, True, False], [False] * 4])

    assert rewards_at_the_end(torch.tensor([1.0, 2.0, 3.0]), mask).tolist() == [
        [0, 1, 0, 0],
        [0, 0, 2, 0],
        [0, 0, 0, 0],
    ]


@given(seed=SEEDS)
def test_whitened_tokens_have_mean_zero_and_variance_one(seed):
    values, _, mask = some_tensors(seed)

    white = whitened(5 + 3 * values, mask)

    assert white[mask].mean().item() == pytest.approx(0, abs=1e-6)
    assert white[mask].var().item() == pytest.approx(1, abs=1e-6)
    assert not white[~mask].any()


@pytest.mark.parametrize("count", [0, 1, 3], ids=["no token", "one token", "equal tokens"])
def test_constant_advantages_whiten_to_zero(count):
    mask = torch.arange(4)[None, :] < count

    assert not whitened(torch.full((1, 4), 2.5), mask).any()


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e20, 3e38])
def test_whitened_values_do_not_depend_on_their_size(size):
    values = torch.tensor([[1.0, -1.0, 1.0, -1.0]]) * size

    found = whitened(values, torch.ones(1, 4, dtype=torch.bool))

    assert found[0].tolist() == pytest.approx([0.866, -0.866, 0.866, -0.866], abs=1e-2)
