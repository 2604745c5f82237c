"""Losses and their gradients against verl's, aggregated in every way.

Known differences, applied here in closed form:

- verl also holds k3 below 10; ours is not held.
- Its mean over a sequence divides by its length + 1e-8, its mean of figures by their number + 1e-8.
- Weights beyond the cap: verl can take such tokens out of the mask as well ("rejection"), so that
  a mean is over fewer. Ours leaves the mask alone, as its "IcePop" and TRL's ``token_mask`` do.
"""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.rollout_corr_helper import (
    compute_rollout_correction_weights,
    compute_rollout_rejection_mask,
)
from verl.workers.config import ActorConfig

from hetrl_core.job.algorithm import Advantage, LossAggregation, StaleWeights
from hetrl_runtime.trainer.losses.advantage import group_advantages
from hetrl_runtime.trainer.losses.policy_loss import (
    Clip,
    PolicyLoss,
    Whole,
    decoupled_ppo,
    kl_k3,
    masked_mean,
    token_weights,
)
from hetrl_runtime.trainer.losses.value_loss import clipped_value_loss
from tests.oracles.samples import SAMPLES, SAMPLES_WITH_HOLES, Sample, assert_same

pytestmark = pytest.mark.oracle

CAP = 1.6
MOST_TOKENS = 16
VERLS_AGGREGATION = {
    LossAggregation.TOKEN_MEAN: "token-mean",
    LossAggregation.SEQUENCE_MEAN: "seq-mean-token-mean",
    LossAggregation.LENGTH_BUDGET: "seq-mean-token-sum-norm",
}
CLIPS = st.builds(
    Clip,
    low=st.sampled_from([0.1, 0.2, 1.0]),
    high=st.sampled_from([0.1, 0.28, 3.0]),
    dual=st.sampled_from([1.05, 1.5, 3.0]),
    behaviour_weight=st.just(CAP),
    beyond=st.sampled_from(StaleWeights),
)


def our_loss(sample: Sample, current: Tensor, clip: Clip, *, advantages: Tensor) -> PolicyLoss:
    return decoupled_ppo(
        current,
        proximal_BR=sample.proximal,
        behaviour_BR=sample.behaviour,
        advantages_B=advantages,
        mask_BR=sample.mask,
        clip=clip,
    )


def aggregated(losses: Tensor, sample: Sample, aggregation: LossAggregation) -> Tensor:
    whole = Whole(
        num_tokens=int(sample.mask.sum()),
        num_trajectories=len(sample.mask),
        most_tokens=MOST_TOKENS,
    )
    return (token_weights(sample.mask, whole, aggregation).double() * losses).sum()


def verls_loss(
    sample: Sample,
    current: Tensor,
    clip: Clip,
    aggregation: LossAggregation,
    *,
    advantages: Tensor,
    weights: Tensor,
    mask: Tensor,
) -> tuple[Tensor, dict[str, float]]:
    config = ActorConfig(
        strategy="fsdp",
        rollout_n=1,
        use_dynamic_bsz=True,
        clip_ratio_low=clip.low,
        clip_ratio_high=clip.high,
        clip_ratio_c=clip.dual,
        global_batch_info={"loss_scale_factor": MOST_TOKENS},
    )
    return core_algos.compute_policy_loss_vanilla(
        sample.proximal,
        current,
        advantages.expand_as(current),
        mask,
        loss_agg_mode=VERLS_AGGREGATION[aggregation],
        config=config,
        rollout_is_weights=weights,
    )


def verls_weights(sample: Sample, beyond: StaleWeights) -> Tensor:
    # A threshold of two bounds is IcePop; no weight is as low as its lower one.
    threshold = {StaleWeights.TRUNCATE: str(CAP), StaleWeights.MASK: f"1e-12_{CAP}"}[beyond]
    weights, _ = compute_rollout_correction_weights(
        sample.proximal - sample.behaviour, sample.number_mask, "token", threshold
    )
    return weights


@given(sample=SAMPLES_WITH_HOLES, beyond=st.sampled_from(StaleWeights))
def test_weights_for_staleness_are_verls(sample, beyond):
    ours = our_loss(
        sample, sample.current, Clip(behaviour_weight=CAP, beyond=beyond), advantages=sample.rewards
    )

    theirs = verls_weights(sample, beyond)

    assert_same(ours.behaviour_weights_BR[sample.mask], theirs[sample.mask])


@given(sample=SAMPLES, clip=CLIPS, aggregation=st.sampled_from(LossAggregation))
def test_policys_loss_and_gradient_are_verls(sample, clip, aggregation):
    advantages = group_advantages(sample.rewards, sample.groups, Advantage.GROUP_CENTRED)
    ours, theirs = (sample.current.clone().requires_grad_() for _ in range(2))

    found = our_loss(sample, ours, clip, advantages=advantages)
    loss = aggregated(found.losses_BR, sample, aggregation)
    their_loss, figures = verls_loss(
        sample,
        theirs,
        clip,
        aggregation,
        advantages=advantages[:, None],
        weights=verls_weights(sample, clip.beyond),
        mask=sample.number_mask,
    )
    torch.autograd.backward([loss, their_loss])

    assert_same(loss, their_loss)
    assert_same(ours.grad, theirs.grad)
    clipped = masked_mean(found.is_clipped_BR.double(), sample.mask)
    assert clipped.item() == pytest.approx(figures["actor/pg_clipfrac"], abs=1e-6)


@given(sample=SAMPLES, clip=CLIPS)
def test_loss_and_gradient_beyond_twenty_nats_are_verls(sample, clip):
    far = replace(sample, proximal=30 * sample.proximal, behaviour=20 * sample.behaviour)
    ours, theirs = (far.current.clone().requires_grad_() for _ in range(2))

    found = our_loss(far, ours, clip, advantages=far.rewards)
    loss = aggregated(found.losses_BR, far, LossAggregation.TOKEN_MEAN)
    their_loss, _ = verls_loss(
        far,
        theirs,
        clip,
        LossAggregation.TOKEN_MEAN,
        advantages=far.rewards[:, None],
        weights=verls_weights(far, clip.beyond),
        mask=far.number_mask,
    )
    torch.autograd.backward([loss, their_loss])

    assert_same(loss, their_loss)
    assert_same(ours.grad, theirs.grad)


@given(sample=SAMPLES_WITH_HOLES, clip=CLIPS)
def test_loss_of_advantages_token_by_token_is_verls(sample, clip):
    found = our_loss(sample, sample.current, clip, advantages=sample.values)
    theirs, _ = verls_loss(
        sample,
        sample.current,
        clip,
        LossAggregation.TOKEN_MEAN,
        advantages=sample.values,
        weights=verls_weights(sample, clip.beyond),
        mask=sample.number_mask,
    )

    assert_same(aggregated(found.losses_BR, sample, LossAggregation.TOKEN_MEAN), theirs)


@given(sample=SAMPLES)
def test_masked_tokens_stay_in_the_mean_unlike_verls_rejected_ones(sample):
    clip = Clip(behaviour_weight=CAP, beyond=StaleWeights.MASK)
    kept, _ = compute_rollout_rejection_mask(
        # Its bounds are on behaviour/proximal.
        sample.proximal - sample.behaviour,
        sample.number_mask,
        "token_k1",
        f"{1 / CAP}_1e8",
    )

    found = our_loss(sample, sample.current, clip, advantages=sample.rewards)
    theirs, _ = verls_loss(
        sample,
        sample.current,
        clip,
        LossAggregation.TOKEN_MEAN,
        advantages=sample.rewards[:, None],
        weights=(sample.proximal - sample.behaviour).exp(),
        mask=kept,
    )

    ours = aggregated(found.losses_BR, sample, LossAggregation.TOKEN_MEAN)
    assert_same(ours, theirs * kept.sum() / sample.mask.sum())


@given(sample=SAMPLES)
def test_divergence_from_the_reference_and_its_gradient_are_verls(sample):
    ours, theirs = (sample.current.clone().requires_grad_() for _ in range(2))

    found = kl_k3(ours, sample.reference, sample.mask).clamp(max=10)
    their_found = core_algos.kl_penalty(theirs, sample.reference, "k3").masked_fill(~sample.mask, 0)
    torch.autograd.backward([found.sum(), their_found.sum()])

    assert_same(found, their_found)
    assert_same(ours.grad, theirs.grad)


@given(
    sample=SAMPLES_WITH_HOLES,
    clip=st.sampled_from([0.05, 0.2, 10.0]),
    aggregation=st.sampled_from(LossAggregation),
)
def test_critics_loss_and_gradient_are_verls(sample, clip, aggregation):
    old, returns = sample.values, sample.values + sample.reference
    ours, theirs = ((old + sample.proximal).requires_grad_() for _ in range(2))

    found = clipped_value_loss(ours, old_BR=old, returns_BR=returns, mask_BR=sample.mask, clip=clip)
    loss = aggregated(found.losses_BR, sample, aggregation)
    their_loss, their_share = core_algos.compute_value_loss(
        theirs,
        returns,
        old,
        sample.number_mask,
        clip,
        loss_agg_mode=VERLS_AGGREGATION[aggregation],
        loss_scale_factor=MOST_TOKENS,
    )
    torch.autograd.backward([loss, their_loss])

    assert_same(loss, their_loss)
    assert_same(ours.grad, theirs.grad)
    assert_same(masked_mean(found.is_clipped_BR.double(), sample.mask), their_share)
