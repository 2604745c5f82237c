"""The tasks of an RL iteration, and which of them an algorithm has."""

from collections.abc import Iterable
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
    """What a process is: pods of one pod set share one role, and ``role_of`` says which."""

    COORDINATOR = "coordinator"
    TRAINER = "trainer"
    ROLLOUT = "rollout"
    INFERENCE = "inference"
    """Of a frozen model: it says what that thinks of a trajectory."""


def role_of(tasks: Iterable[Task]) -> Role:
    """Return what the processes are that do these tasks."""
    done = frozenset(tasks)
    if done & TRAINING_TASKS:
        return Role.TRAINER
    return Role.ROLLOUT if Task.ACTOR_GENERATION in done else Role.INFERENCE


SCORING_TASKS = frozenset(Task) - TRAINING_TASKS - {Task.ACTOR_GENERATION}
"""Tasks that only read what was generated."""
