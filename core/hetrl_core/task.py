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


def programs_of(tasks: Iterable[Task]) -> tuple[Role, ...]:
    """Return which programs a pod has whose GPUs do these tasks; the first is what the pod is.

    A trainer's processes do what the reference and the critic have to say as well.
    """
    done = frozenset(tasks)
    trains = bool(done & TRAINING_TASKS)
    return tuple(
        program
        for program, has_work in (
            (Role.TRAINER, trains),
            (Role.ROLLOUT, Task.ACTOR_GENERATION in done),
            (Role.INFERENCE, bool(asked_of_workers(done))),
        )
        if has_work
    )


def possible_programs(role: Role) -> tuple[Role, ...]:
    """Return which programs a pod of a role may run, its own first; ``programs_of`` says which do.

    They all have the pod's certificate, which is its role's.
    """
    if role is Role.COORDINATOR:
        return (role,)
    shared = (Role.TRAINER, Role.ROLLOUT, Role.INFERENCE)
    return shared[shared.index(role) :]


def asked_of_workers(tasks: Iterable[Task]) -> frozenset[Task]:
    """Return what of a pod's tasks others ask an inference worker for.

    Never what a trainer's processes do themselves.
    """
    done = frozenset(tasks)
    asked = {Task.REWARD_INFERENCE}
    if not done & TRAINING_TASKS:
        asked.add(Task.REFERENCE_INFERENCE)
    return done & asked


SCORING_TASKS = frozenset(Task) - TRAINING_TASKS - {Task.ACTOR_GENERATION}
"""Tasks that only read what was generated."""
