"""The time of a step from the times of its tasks: parallel groups, and their waits.

Groups work side by side, tasks of one group take turns. A critic that is trained on other GPUs than
its policy keeps step with it: both read one batch, the policy's first gradient needs all of the
critic's values, and neither takes the next batch before the other has finished this one.
"""

from collections.abc import Mapping, Sequence

from hetrl_core.task import SCORING_TASKS, TRAINING_TASKS, Task
from hetrl_planner.layout.evaluation import TaskCost
from hetrl_planner.layout.layout import Layout, TaskLayout

Costs = Mapping[Task, TaskCost]
Group = Sequence[TaskLayout]


def busy_seconds(group: Group, costs: Costs) -> float:
    """Return the seconds of a group's tasks that are priced."""
    return sum(costs[task.task].seconds for task in group if task.task in costs)


def side_seconds(layout: Layout, costs: Costs) -> float:
    """Return the time from a generated batch to new weights: scoring, then training."""
    return _in_turn(layout.groups, costs, is_parted=len(trainers(layout)) > 1)


def in_step_seconds(layout: Layout, costs: Costs) -> float:
    """Return how long a batch keeps the training groups busy."""
    groups = trainers(layout)
    return _in_turn(groups, costs, is_parted=len(groups) > 1)


def longest_seconds(layout: Layout, costs: Costs) -> float:
    """Return the time of a step whose groups each work on another batch."""
    alone = max(busy_seconds(group, costs) for group in layout.groups)
    return max(alone, in_step_seconds(layout, costs))


def scoring_apart_seconds(layout: Layout, costs: Costs) -> float:
    """Return how long a trajectory waits for scores from groups that do not train."""
    return max(
        (
            busy_seconds(group, costs)
            for group in layout.groups
            if not any(task.mode for task in group)
            and any(task.task in costs and task.task in SCORING_TASKS for task in group)
        ),
        default=0.0,
    )


def trainers(layout: Layout) -> list[tuple[TaskLayout, ...]]:
    """Return the groups that train: one, or the policy's and the critic's."""
    return [group for group in layout.groups if any(task.mode for task in group)]


def _in_turn(groups: Sequence[Group], costs: Costs, *, is_parted: bool) -> float:
    """Return the time in which all have scored, and then all trained.

    If training is parted, a policy's passes before its first gradient run beside the critic's
    scoring.
    """
    scoring, training = [0.0], [0.0]
    for group in groups:
        here = [task.task for task in group if task.task in costs]
        trained = [costs[task] for task in here if task in TRAINING_TASKS]
        proximal = sum(each.proximal_seconds for each in trained) if is_parted else 0.0
        scoring.append(
            sum(costs[task].seconds for task in here if task in SCORING_TASKS) + proximal
        )
        training.append(sum(each.seconds for each in trained) - proximal)
    return max(scoring) + max(training)
