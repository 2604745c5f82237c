"""Which tasks the runtime does on the same GPUs: the one list that planner and runtime go by.

Whatever else shares a trainer's GPUs is done by the trainer's own processes, which take turns at
it, with every model cut as the one that is trained there. A critic may be trained on GPUs of its
own, by processes that keep step with the policy's. What a frozen model says of a trajectory can be
asked of inference workers instead, on GPUs of their own, while others are still being generated.
"""

from collections.abc import Iterable

from hetrl_core.task import Task

TaskGroup = frozenset[Task]

GENERATES: TaskGroup = frozenset({Task.ACTOR_GENERATION})

_CRITIC = frozenset({Task.CRITIC_INFERENCE, Task.CRITIC_TRAINING})
"""Two tasks of one model, which changes with every step: they stay together."""

_REFERENCE = frozenset({Task.REFERENCE_INFERENCE})
_REWARD = frozenset({Task.REWARD_INFERENCE})

TRAINS: tuple[TaskGroup, ...] = tuple(
    frozenset({Task.ACTOR_TRAINING}) | others
    for others in (frozenset(), _REFERENCE, _CRITIC, _REFERENCE | _CRITIC)
)
"""What a pod may be told to do that trains the policy."""

TRAINS_CRITIC: tuple[TaskGroup, ...] = (_CRITIC, _CRITIC | _REFERENCE)
"""What one may be told that trains a critic apart from its policy."""

SCORES: tuple[TaskGroup, ...] = (_REFERENCE, _REWARD, _REFERENCE | _REWARD)
"""What an inference worker's pod may be told to do."""

_INFERS: tuple[frozenset[TaskGroup], ...] = (
    frozenset(),
    *(frozenset({scores}) for scores in SCORES),
    frozenset({_REFERENCE, _REWARD}),
)
"""What inference workers may be together. A trainer has no reward model: rewards decide which
trajectories come to it."""

_TRAINERS: tuple[frozenset[TaskGroup], ...] = (
    *(frozenset({trains}) for trains in TRAINS),
    *(
        frozenset({trains, critic})
        for trains in TRAINS
        for critic in TRAINS_CRITIC
        if not trains & critic
    ),
)
"""What trainers may be together."""

GROUPINGS: tuple[frozenset[TaskGroup], ...] = tuple(
    frozenset({GENERATES}) | trainers | infers
    for infers in _INFERS
    for trainers in _TRAINERS
    if not any(trains & scores for trains in trainers for scores in infers)
)
"""Every way of giving an iteration's tasks to groups of GPUs that this release runs."""


def grouping(groups: Iterable[Iterable[Task]]) -> frozenset[TaskGroup]:
    """Return groups of tasks as the list above has them."""
    return frozenset(frozenset(group) for group in groups)


def named(tasks: Iterable[Task]) -> str:
    """Return tasks in words, in the order in which an iteration comes to them."""
    wanted = frozenset(tasks)
    return " and ".join(task for task in Task if task in wanted)
