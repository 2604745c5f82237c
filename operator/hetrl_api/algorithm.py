"""`spec.algorithm`: how the policy learns, and how stale its samples may be."""

from typing import Annotated, ClassVar

from pydantic import Field

from hetrl_api.rules import ApiModel, Rule, value_not_yet
from hetrl_core.job import (
    Advantage,
    AlgorithmType,
    KlPlacement,
    LossAggregation,
    Mode,
    StaleWeights,
)


class Algorithm(ApiModel):
    """The RL algorithm and its constants."""

    type: AlgorithmType = AlgorithmType.GRPO
    """GRPO. PPO is not supported yet."""

    mode: Mode = Mode.ASYNC
    """Async: generation runs ahead of training. Sync: staleness is always 0."""

    max_staleness: Annotated[int, Field(ge=0, le=64)] | None = None
    """Policy versions that a sample may lag behind. Default: 2 when Async, 0 when Sync."""

    group_size: Annotated[int, Field(ge=1, le=1024)] = 8
    """Trajectories of one prompt, compared with each other."""

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

    advantage: Advantage = Advantage.GROUP_NORMALISED
    """What rewards are compared with in their group. GroupNormalised: the mean, in standard
    deviations (GRPO). GroupCentred: the mean (Dr. GRPO). LeaveOneOut: the others' mean (RLOO)."""

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
    """Where that is charged. Loss: at every token. Reward: once a trajectory, before rewards are
    compared."""

    temperature: Annotated[float, Field(gt=0, le=10)] = 1.0
    """Sampling temperature."""

    rules: ClassVar[tuple[Rule, ...]] = (
        value_not_yet(
            "spec.algorithm.type", name="type", value="PPO", instead="this release trains with GRPO"
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
