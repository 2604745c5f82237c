"""The losses against their definitions, on random policies."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from hetrl_core.job.algorithm import LossAggregation, StaleWeights
from hetrl_runtime.trainer.losses.policy_loss import (
    Clip,
    Whole,
    decoupled_ppo,
    kl_k3,
    masked_mean,
    token_entropy,
    token_weights,
)

SEEDS = st.integers(0, 2**32 - 1)
UNCLIPPED = Clip(low=1.0, high=math.inf, dual=math.inf, behaviour_weight=math.inf)


def some_log_probs(generator: torch.Generator, *, rows: int = 4, columns: int = 5) -> Tensor:
    logits = torch.randn(rows, columns, 7, generator=generator, dtype=torch.float64)
    return torch.log_softmax(logits, dim=-1)[..., 0]


def some_mask(generator: torch.Generator, *, rows: int = 4, columns: int = 5) -> Tensor:
    lengths = torch.randint(1, columns + 1, (rows, 1), generator=generator)
    return torch.arange(columns)[None, :] < lengths


@given(seed=SEEDS)
def test_loss_with_proximal_equal_to_behaviour_is_ppo(seed):
    generator = torch.Generator().manual_seed(seed)
    current, old = some_log_probs(generator), some_log_probs(generator)
    advantages = torch.randn(4, generator=generator, dtype=torch.float64)
    mask = some_mask(generator)

    found = decoupled_ppo(
        current,
        proximal_BR=old,
        behaviour_BR=old,
        advantages_B=advantages,
        mask_BR=mask,
        clip=Clip(dual=math.inf),
    )

    ratio, scale = (current - old).exp(), advantages[:, None]
    ppo = -torch.minimum(scale * ratio, scale * ratio.clamp(0.8, 1.28))
    assert torch.allclose(found.losses_BR[mask], ppo[mask])
    assert torch.equal(found.behaviour_weights_BR, torch.ones_like(current))


@given(seed=SEEDS)
def test_unclipped_it_is_plain_importance_sampling_from_the_behaviour_policy(seed):
    generator = torch.Generator().manual_seed(seed)
    current, proximal, behaviour = (some_log_probs(generator) for _ in range(3))
    advantages = torch.randn(4, generator=generator, dtype=torch.float64)
    mask = some_mask(generator)

    found = decoupled_ppo(
        current,
        proximal_BR=proximal,
        behaviour_BR=behaviour,
        advantages_B=advantages,
        mask_BR=mask,
        clip=UNCLIPPED,
    )

    sampled = -advantages[:, None] * (current - behaviour).exp()
    assert torch.allclose(found.losses_BR[mask], sampled[mask])


@given(seed=SEEDS)
def test_unclipped_gradient_is_score_times_ratio_weight_and_advantage(seed):
    generator = torch.Generator().manual_seed(seed)
    proximal, behaviour = some_log_probs(generator), some_log_probs(generator)
    current = (proximal + 0.1 * torch.randn(4, 5, generator=generator)).requires_grad_()
    advantages = torch.randn(4, generator=generator, dtype=torch.float64)
    mask, clip = some_mask(generator), Clip(behaviour_weight=1.5)

    found = decoupled_ppo(
        current,
        proximal_BR=proximal,
        behaviour_BR=behaviour,
        advantages_B=advantages,
        mask_BR=mask,
        clip=clip,
    )
    torch.autograd.backward(found.losses_BR.sum())

    ratio = (current - proximal).detach().exp()
    weight = (proximal - behaviour).exp().clamp(max=1.5)
    expected = -advantages[:, None] * ratio * weight
    at_limit = (advantages[:, None] < 0) & (ratio > clip.dual)
    moves = mask & ~found.is_clipped_BR & ~at_limit
    assert torch.allclose(current.grad[moves], expected[moves])
    assert (current.grad[~moves] == 0).all()


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "slope"),
    [
        pytest.param(1.1, 1.0, -1.1, -1.1, id="inside the range"),
        pytest.param(1.5, 1.0, -1.28, 0.0, id="a good action, likely enough"),
        pytest.param(0.5, 1.0, -0.5, -0.5, id="a good action that became rare still rises"),
        pytest.param(0.5, -1.0, 0.8, 0.0, id="a bad action, rare enough"),
        pytest.param(2.0, -1.0, 2.0, 2.0, id="a bad action that became likely still falls"),
        pytest.param(9.0, -1.0, 3.0, 0.0, id="so likely that the dual clip holds it"),
    ],
)
def test_clipping_by_ratio_and_sign(ratio, advantage, loss, slope):
    current = torch.tensor([[math.log(ratio)]], requires_grad=True)

    found = decoupled_ppo(
        current,
        proximal_BR=torch.zeros(1, 1),
        behaviour_BR=torch.zeros(1, 1),
        advantages_B=torch.tensor([advantage]),
        mask_BR=torch.ones(1, 1, dtype=torch.bool),
        clip=Clip(),
    )
    torch.autograd.backward(found.losses_BR.sum())

    assert found.losses_BR.item() == pytest.approx(loss)
    assert current.grad.item() == pytest.approx(slope)


@pytest.mark.parametrize("log_ratio", [100.0, -100.0, 3e38, -math.inf])
@pytest.mark.parametrize("advantage", [1.0, 0.0, -1.0])
@pytest.mark.parametrize("is_masked", [False, True])
def test_loss_and_gradient_are_finite_at_any_distance(log_ratio, advantage, is_masked):
    current = torch.tensor([[log_ratio, 0.0]], requires_grad=True)
    old, mask = torch.zeros(1, 2), torch.ones(1, 2, dtype=torch.bool)
    beyond = StaleWeights.MASK if is_masked else StaleWeights.TRUNCATE

    for proximal, behaviour in ((old, old), (old - log_ratio, old), (old, old - log_ratio)):
        found = decoupled_ppo(
            current,
            proximal_BR=proximal.nan_to_num(),
            behaviour_BR=behaviour.nan_to_num(),
            advantages_B=torch.tensor([advantage]),
            mask_BR=mask,
            clip=Clip(beyond=beyond),
        )
        losses = found.losses_BR + kl_k3(current, old, mask) + kl_k3(old, current, mask)
        current.grad = None
        torch.autograd.backward(losses.sum())

        assert torch.isfinite(losses).all()
        assert torch.isfinite(current.grad).all()


@pytest.mark.parametrize(
    ("log_ratio", "held"), [(19.0, 19.0), (-19.0, -19.0), (21.0, 20.0), (-21.0, -20.0)]
)
def test_k3_is_exact_within_twenty_nats_and_level_beyond(log_ratio, held):
    current = torch.zeros(1, 1, dtype=torch.float64, requires_grad=True)
    mask = torch.ones(1, 1, dtype=torch.bool)

    found = kl_k3(current, current.detach() + log_ratio, mask)
    torch.autograd.backward(found.sum())

    assert found.item() == pytest.approx(math.exp(held) - 1 - held)
    slope = 1 - math.exp(log_ratio) if held == log_ratio else 0.0
    assert current.grad.item() == pytest.approx(slope)


def test_padding_is_never_read_even_if_not_a_number():
    mask = torch.tensor([[True, False]])
    current = torch.tensor([[-1.0, math.nan]], requires_grad=True)
    old = torch.tensor([[-1.0, -math.inf]])

    found = decoupled_ppo(
        current,
        proximal_BR=old,
        behaviour_BR=old,
        advantages_B=torch.tensor([1.0]),
        mask_BR=mask,
        clip=Clip(),
    )
    loss = masked_mean(found.losses_BR + kl_k3(current, old, mask), mask)
    torch.autograd.backward(loss)

    assert loss.item() == pytest.approx(-1.0)
    assert torch.isfinite(current.grad).all()
    assert current.grad[0, 1] == 0


@given(seed=SEEDS)
def test_k3_is_never_negative_and_its_mean_is_the_divergence(seed):
    generator = torch.Generator().manual_seed(seed)
    current, reference = (
        torch.log_softmax(torch.randn(6, generator=generator, dtype=torch.float64), dim=0)
        for _ in range(2)
    )

    estimates = kl_k3(current, reference, torch.ones(6, dtype=torch.bool))

    divergence = (current.exp() * (current - reference)).sum()
    assert (estimates >= 0).all()
    assert torch.allclose((current.exp() * estimates).sum(), divergence)


def test_parts_of_a_minibatch_add_up_to_its_mean():
    values, mask = torch.arange(12.0).view(4, 3), torch.rand(4, 3) < 0.7
    mask[:, 0] = True

    parts = [
        masked_mean(values[part], mask[part], num_tokens=int(mask.sum()))
        for part in (slice(0, 1), slice(1, 4))
    ]

    assert torch.allclose(parts[0] + parts[1], masked_mean(values, mask))


def test_entropy_of_a_fair_choice_is_log_of_its_size():
    assert token_entropy(torch.log_softmax(torch.zeros(1, 2, 8), dim=-1)).tolist() == [
        pytest.approx([math.log(8)] * 2)
    ]


@given(seed=SEEDS, aggregation=st.sampled_from(LossAggregation), cut=st.integers(1, 3))
def test_token_weights_add_up_over_passes_to_the_mean(seed, aggregation, cut):
    generator = torch.Generator().manual_seed(seed)
    losses, mask = some_log_probs(generator), some_mask(generator)
    lengths = mask.sum(dim=1)
    whole = Whole(num_tokens=int(lengths.sum()), num_trajectories=4, most_tokens=10)

    found = sum(
        (token_weights(mask[rows], whole, aggregation) * losses[rows]).sum()
        for rows in (slice(0, cut), slice(cut, 4))
    )

    sums = losses.masked_fill(~mask, 0).sum(dim=1)
    expected = {
        LossAggregation.TOKEN_MEAN: sums.sum() / lengths.sum(),
        LossAggregation.SEQUENCE_MEAN: (sums / lengths).mean(),
        LossAggregation.LENGTH_BUDGET: sums.mean() / 10,
    }[aggregation]
    assert torch.allclose(found, expected)


@pytest.mark.parametrize(
    ("beyond", "expected"), [(StaleWeights.TRUNCATE, [1.0, 2.0]), (StaleWeights.MASK, [1.0, 0.0])]
)
def test_tokens_beyond_the_cap_count_with_it_or_not(beyond, expected):
    proximal = torch.zeros(1, 2)
    behaviour = torch.tensor([[0.0, -math.log(4)]])

    found = decoupled_ppo(
        proximal,
        proximal_BR=proximal,
        behaviour_BR=behaviour,
        advantages_B=torch.ones(1),
        mask_BR=torch.ones(1, 2, dtype=torch.bool),
        clip=Clip(behaviour_weight=2.0, beyond=beyond),
    )

    assert found.behaviour_weights_BR[0].tolist() == pytest.approx(expected)
    assert (-found.losses_BR[0]).tolist() == pytest.approx(expected)
