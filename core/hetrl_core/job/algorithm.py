"""The RL algorithm and its constants: what the planner prices and the trainer does.

Part of a job (``hetrl_core.job.spec``). ``hetrl_core.staleness`` decides which trajectories may be
trained on.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from hetrl_core.limits import above_zero, at_least, at_most


class AlgorithmType(StrEnum):
    """The RL algorithm."""

    GRPO = "GRPO"
    PPO = "PPO"


class Mode(StrEnum):
    """Whether generation runs ahead of training. ``SYNC`` promises staleness zero."""

    ASYNC = "Async"
    SYNC = "Sync"


class Advantage(StrEnum):
    """What a reward is compared with, within its group."""

    GROUP_NORMALISED = "GroupNormalised"
    """The mean, in standard deviations: GRPO."""

    GROUP_CENTRED = "GroupCentred"
    """The mean: Dr. GRPO, for which easy and hard prompts count alike."""

    LEAVE_ONE_OUT = "LeaveOneOut"
    """The mean of the others: RLOO."""


class LossAggregation(StrEnum):
    """What every token of a minibatch counts."""

    TOKEN_MEAN = "TokenMean"  # noqa: S105  # of a text
    """All tokens the same: DAPO."""

    SEQUENCE_MEAN = "SequenceMean"
    """All trajectories the same, whatever their lengths: GRPO as first published."""

    LENGTH_BUDGET = "LengthBudget"
    """All tokens the same in all minibatches, over the longest response allowed: Dr. GRPO."""


class StaleWeights(StrEnum):
    """What becomes of a token whose weight proximal/behaviour is beyond the cap."""

    TRUNCATE = "Truncate"
    """It counts with the cap."""

    MASK = "Mask"
    """It does not count."""


class ProximalPolicy(StrEnum):
    """The policy that clipping holds the current one near."""

    STEP_START = "StepStart"
    """The policy as the step finds it, with a weight for its distance from the behaviour policy:
    decoupled PPO, which stale samples do not hold back."""

    BEHAVIOUR = "Behaviour"
    """The policy that sampled, versions ago as it may be: PPO as first published, "naive" where
    samples are stale."""


class KlPlacement(StrEnum):
    """Where the divergence from the first policy is charged."""

    LOSS = "Loss"
    """Token by token, beside the policy's loss."""

    REWARD = "Reward"
    """In the reward: trajectory by trajectory before rewards are compared, and token by token
    where a critic says what to expect of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticSpec:
    """How PPO's critic learns, and what advantages are made of its values."""

    learning_rate: float | None = None
    """None: the policy's."""

    discount: float = 1.0
    """Gamma: what a reward is worth one token earlier."""

    trace_decay: float = 0.95
    """Lambda: 1 trusts rewards alone, 0 the critic's next value."""

    value_clip: float = 0.5
    """How far a step's loss follows a value from where the step found it."""

    warm_up_steps: int = 0
    """Steps at the beginning in which only the critic learns."""

    whiten_advantages: bool = True
    """Whether a batch's advantages are brought to mean zero and variance one."""

    def __post_init__(self) -> None:
        at_least("algorithm.critic.learningRate", self.learning_rate, 0)
        above_zero("algorithm.critic.discount", self.discount)
        at_most("algorithm.critic.discount", self.discount, 1)
        at_least("algorithm.critic.traceDecay", self.trace_decay, 0)
        at_most("algorithm.critic.traceDecay", self.trace_decay, 1)
        above_zero("algorithm.critic.valueClip", self.value_clip)
        at_least("algorithm.critic.warmUpSteps", self.warm_up_steps, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmSpec:
    """The algorithm and its constants; the defaults are those of the API reference."""

    type: AlgorithmType = AlgorithmType.GRPO
    mode: Mode = Mode.ASYNC
    max_staleness: int = 2
    group_size: int = 8
    global_batch_size: int = 256
    """Trajectories consumed per policy version."""

    minibatches: int = 1
    """Optimizer steps per version, each on an equal share of the batch."""

    clip_low: float = 0.2
    clip_high: float = 0.28
    behaviour_weight_cap: float = 5.0
    """Largest importance weight proximal/behaviour in the decoupled objective."""

    stale_weights: StaleWeights = StaleWeights.TRUNCATE
    proximal_policy: ProximalPolicy = ProximalPolicy.STEP_START
    advantage: Advantage = Advantage.GROUP_NORMALISED
    """Of GRPO; PPO's are its critic's."""

    critic: CriticSpec = field(default_factory=CriticSpec)
    """Of PPO; GRPO has none."""

    loss_aggregation: LossAggregation = LossAggregation.TOKEN_MEAN
    dynamic_sampling: bool = False
    """Whether groups whose rewards are all equal make room for others: DAPO."""

    kl_coefficient: float = 0.0
    kl_placement: KlPlacement = KlPlacement.LOSS
    temperature: float = 1.0

    def __post_init__(self) -> None:
        at_least("algorithm.maxStaleness", self.max_staleness, 0)
        at_least("algorithm.groupSize", self.group_size, 1)
        at_least("algorithm.globalBatchSize", self.global_batch_size, 1)
        at_least("algorithm.minibatches", self.minibatches, 1)
        at_least("algorithm.klCoefficient", self.kl_coefficient, 0)
        if self.global_batch_size % self.group_size:
            raise ValueError(
                f"algorithm.globalBatchSize ({self.global_batch_size}) must be a multiple of "
                f"algorithm.groupSize ({self.group_size})"
            )
        if self.dynamic_sampling and self.group_size == 1:
            raise ValueError("algorithm.dynamicSampling needs algorithm.groupSize >= 2, got 1")
        if self.mode is Mode.SYNC and self.max_staleness:
            raise ValueError(
                f"algorithm.maxStaleness must be 0 when algorithm.mode is Sync, "
                f"got {self.max_staleness}"
            )
