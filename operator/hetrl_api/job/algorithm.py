"""`spec.algorithm`: how the policy learns, and how stale its samples may be."""

from typing import Annotated, ClassVar

from pydantic import Field

from hetrl_api.validation.rules import ApiModel, Rule
from hetrl_core.job.algorithm import (
    Advantage,
    AlgorithmType,
    KlPlacement,
    LossAggregation,
    Mode,
    ProximalPolicy,
    StaleWeights,
)


class Critic(ApiModel):
    """How PPO's critic learns, and what advantages are made of its values."""

    learning_rate: Annotated[float, Field(ge=0, le=1)] | None = None
    """Of the critic's AdamW, after a warm-up of five steps. Default: training.learningRate."""

    discount: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Gamma: what a reward is worth one token earlier."""

    trace_decay: Annotated[float, Field(ge=0, le=1)] = 0.95
    """Lambda of generalised advantage estimation. 1: the rewards alone. 0: the critic alone."""

    value_clip: Annotated[float, Field(gt=0, le=1000)] = 0.5
    """How far from where a step found it the loss follows a value."""

    warm_up_steps: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Steps at the beginning in which the critic learns and the policy stays."""

    whiten_advantages: bool = True
    """Whether the advantages of a batch are brought to mean 0 and variance 1."""


class Algorithm(ApiModel):
    """The RL algorithm and its constants."""

    type: AlgorithmType = AlgorithmType.GRPO
    """GRPO: trajectories of one prompt are compared with each other. PPO: tokens with what a critic
    expects of them."""

    mode: Mode = Mode.ASYNC
    """Async: generation runs ahead of training. Sync: staleness is always 0."""

    max_staleness: Annotated[int, Field(ge=0, le=64)] | None = None
    """Policy versions that a sample may lag behind. Default: 2 when Async, 0 when Sync."""

    group_size: Annotated[int, Field(ge=1, le=1024)] = 8
    """Trajectories of one prompt. GRPO compares them: at least 2; PPO may do with 1."""

    global_batch_size: Annotated[int, Field(ge=1, le=1_000_000)] = 256
    """Trajectories consumed per policy version; a multiple of groupSize."""

    minibatches: Annotated[int, Field(ge=1, le=1024)] = 1
    """Optimizer steps per policy version, on equal shares of the batch."""

    clip_low: Annotated[float, Field(gt=0, le=1)] = 0.2
    """How far below 1 the probability ratio may fall."""

    clip_high: Annotated[float, Field(gt=0, le=10)] = 0.28
    """How far above 1 the probability ratio may rise."""

    behaviour_weight_cap: Annotated[float, Field(ge=1, le=1000)] = 5.0
    """Largest weight that corrects for stale samples."""

    stale_weights: StaleWeights = StaleWeights.TRUNCATE
    """Tokens beyond that cap. Truncate: they count with the cap. Mask: they do not count."""

    proximal_policy: ProximalPolicy = ProximalPolicy.STEP_START
    """What clipping holds the policy near. StepStart: the policy as the step finds it (decoupled
    PPO). Behaviour: the one that sampled (PPO as first published), for comparison: stale samples
    then hold the policy back."""

    advantage: Advantage | None = None
    """What GRPO compares rewards with in their group. GroupNormalised, the default: the mean, in
    standard deviations. GroupCentred: the mean (Dr. GRPO). LeaveOneOut: the others' mean (RLOO)."""

    critic: Critic | None = None
    """PPO's critic: a second model like the policy, trained beside it."""

    loss_aggregation: LossAggregation = LossAggregation.TOKEN_MEAN
    """What a token counts. TokenMean: the same as all others of its minibatch (DAPO).
    SequenceMean: trajectories count the same (GRPO). LengthBudget: tokens count the same over
    data.maxResponseTokens (Dr. GRPO)."""

    dynamic_sampling: bool = False
    """Whether groups whose rewards are all equal are left out, and others generated in their
    place (DAPO)."""

    kl_coefficient: Annotated[float, Field(ge=0, le=10)] = 0.0
    """Weight of the divergence from the first policy; 0: none."""

    kl_placement: KlPlacement = KlPlacement.LOSS
    """Where that is charged. Loss: at every token. Reward: with GRPO once a trajectory, before
    rewards are compared; with PPO in every token's reward."""

    temperature: Annotated[float, Field(gt=0, le=10)] = 1.0
    """Sampling temperature."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            condition="self.type == 'PPO' || !has(self.critic)",
            message="spec.algorithm.critic needs spec.algorithm.type PPO, got {}",
            values=("self.type",),
            field=".critic",
        ),
        Rule(
            condition="self.type == 'GRPO' || !has(self.advantage)",
            message=(
                "spec.algorithm.advantage needs spec.algorithm.type GRPO, got {}: "
                "PPO's advantages are its critic's"
            ),
            values=("self.type",),
            field=".advantage",
        ),
        Rule(
            condition="self.type == 'PPO' || self.groupSize > 1",
            message=(
                "spec.algorithm.groupSize must be >= 2 with spec.algorithm.type {}, which compares "
                "the trajectories of one prompt, got {}"
            ),
            values=("self.type", "self.groupSize"),
            field=".groupSize",
            spares_stored=True,
        ),
        Rule(
            condition="self.mode != 'Sync' || !has(self.maxStaleness) || self.maxStaleness == 0",
            message=(
                "spec.algorithm.maxStaleness must be 0 when spec.algorithm.mode is Sync, got {}"
            ),
            values=("self.maxStaleness",),
            field=".maxStaleness",
        ),
        Rule(
            condition="!self.dynamicSampling || self.groupSize > 1",
            message="spec.algorithm.dynamicSampling compares trajectories: groupSize must be >= 2",
            field=".dynamicSampling",
        ),
        Rule(
            condition="self.globalBatchSize % self.groupSize == 0",
            message="spec.algorithm.globalBatchSize ({}) must be a multiple of groupSize ({})",
            values=("self.globalBatchSize", "self.groupSize"),
            field=".globalBatchSize",
        ),
        Rule(
            condition="self.globalBatchSize % self.minibatches == 0",
            message="spec.algorithm.globalBatchSize ({}) must be a multiple of minibatches ({})",
            values=("self.globalBatchSize", "self.minibatches"),
            field=".globalBatchSize",
        ),
    )
