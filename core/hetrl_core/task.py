"""The tasks of an RL iteration, and which of them an algorithm has."""

from enum import StrEnum


class Task(StrEnum):
    """One of the six tasks of PPO, as HetRL counts them; GRPO does without the critic's two."""

    ACTOR_GENERATION = "ActorGeneration"
    REFERENCE_INFERENCE = "ReferenceInference"
    REWARD_INFERENCE = "RewardInference"
    CRITIC_INFERENCE = "CriticInference"
    ACTOR_TRAINING = "ActorTraining"
    CRITIC_TRAINING = "CriticTraining"


TRAINING_TASKS = frozenset({Task.ACTOR_TRAINING, Task.CRITIC_TRAINING})
"""Those that change weights."""


class Role(StrEnum):
    """What a process is: pods of one pod set share one role."""

    COORDINATOR = "coordinator"
    TRAINER = "trainer"
    ROLLOUT = "rollout"


SCORING_TASKS = frozenset(Task) - TRAINING_TASKS - {Task.ACTOR_GENERATION}
"""Tasks that only read what was generated."""
