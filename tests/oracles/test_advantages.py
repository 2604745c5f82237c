"""Advantages against TRL's and verl's, which know no bound below which rewards are equal.

Known differences, applied here in closed form:

- A group's standard deviation is ours over n, as GRPO's paper has it, and theirs over n - 1.
- Theirs adds an epsilon to it, 1e-6 in verl and 1e-4 in TRL; ours is zero below 1e-6.
"""

import math

import pytest
import torch
from hypothesis import given
from verl.trainer.ppo import core_algos

from hetrl_core.job.algorithm import Advantage
from hetrl_runtime.trainer.losses.advantage import group_advantages
from hetrl_runtime.trainer.losses.gae import generalised_advantages, rewards_at_the_end, whitened
from hetrl_runtime.trainer.losses.policy_loss import summed
from tests.oracles.samples import GROUP_SIZE, SAMPLES, SAMPLES_WITH_HOLES, Sample, assert_same

pytestmark = pytest.mark.oracle


def verls_normalised(sample: Sample, ours: torch.Tensor) -> torch.Tensor:
    """Ours with verl's deviation: over n - 1, and an epsilon more."""
    deviations = torch.stack(
        [sample.rewards[sample.groups == group].std(correction=0) for group in sample.groups]
    )
    bessel = math.sqrt(GROUP_SIZE / (GROUP_SIZE - 1))
    return ours * deviations / (deviations * bessel + 1e-6)


@given(sample=SAMPLES)
@pytest.mark.parametrize(
    "verls",
    [
        core_algos.compute_grpo_outcome_advantage,
        core_algos.compute_grpo_vectorized_outcome_advantage,
    ],
)
def test_normalised_advantages_are_verls_but_for_its_deviation(sample, verls):
    ours = group_advantages(sample.rewards, sample.groups, Advantage.GROUP_NORMALISED)

    theirs, _ = verls(sample.outcome, sample.number_mask, sample.uids)

    assert_same(verls_normalised(sample, ours)[:, None] * sample.mask, theirs)


@given(sample=SAMPLES)
@pytest.mark.parametrize(
    "verls",
    [
        core_algos.compute_grpo_outcome_advantage,
        core_algos.compute_grpo_vectorized_outcome_advantage,
    ],
)
def test_centred_advantages_are_verls(sample, verls):
    ours = group_advantages(sample.rewards, sample.groups, Advantage.GROUP_CENTRED)

    theirs, _ = verls(
        sample.outcome, sample.number_mask, sample.uids, norm_adv_by_std_in_grpo=False
    )

    assert_same(ours[:, None] * sample.mask, theirs)


@given(sample=SAMPLES)
@pytest.mark.parametrize(
    "verls",
    [
        core_algos.compute_rloo_outcome_advantage,
        core_algos.compute_rloo_vectorized_outcome_advantage,
    ],
)
def test_leave_one_out_advantages_are_verls(sample, verls):
    ours = group_advantages(sample.rewards, sample.groups, Advantage.LEAVE_ONE_OUT)

    theirs, _ = verls(sample.outcome, sample.number_mask, sample.uids)

    assert_same(ours[:, None] * sample.mask, theirs)


@given(sample=SAMPLES)
def test_rewards_less_the_divergence_are_verls(sample):
    ours = sample.rewards - 0.3 * summed(sample.proximal - sample.reference, sample.mask)

    theirs = core_algos.compute_rewards(
        sample.outcome, sample.proximal, sample.reference, kl_ratio=0.3
    )

    assert_same(ours, (theirs * sample.mask).sum(dim=1))


@given(sample=SAMPLES_WITH_HOLES)
@pytest.mark.parametrize(("discount", "trace_decay"), [(1.0, 1.0), (1.0, 0.95), (0.9, 0.5)])
def test_generalised_advantages_are_verls(sample, discount, trace_decay):
    ours = generalised_advantages(
        sample.token_rewards,
        sample.values,
        sample.mask,
        discount=discount,
        trace_decay=trace_decay,
    )

    advantages, returns = core_algos.compute_gae_advantage_return(
        sample.token_rewards, sample.values, sample.number_mask, discount, trace_decay
    )

    assert_same(ours.returns_BR[sample.mask], returns[sample.mask])
    white = whitened(ours.advantages_BR, sample.mask)
    assert_same(white[sample.mask], advantages[sample.mask])


@given(sample=SAMPLES)
def test_rewards_at_the_end_give_verls_returns_of_an_outcome(sample):
    outcome = torch.zeros_like(sample.values)
    outcome[torch.arange(len(outcome)), sample.lengths - 1] = sample.rewards

    ours = generalised_advantages(
        rewards_at_the_end(sample.rewards, sample.mask),
        sample.values,
        sample.mask,
        discount=1.0,
        trace_decay=0.9,
    )

    _, returns = core_algos.compute_gae_advantage_return(
        outcome, sample.values, sample.number_mask, 1.0, 0.9
    )
    assert_same(ours.returns_BR[sample.mask], returns[sample.mask])
