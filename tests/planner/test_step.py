"""Waits in a step: groups that train, that score, and two that train in step."""

import pytest

from hetrl_core.plan.plan import TrainingMode
from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.layout import step
from hetrl_planner.layout.evaluation import TaskCost
from hetrl_planner.layout.layout import Layout, TaskLayout

GENERATES = (Task.ACTOR_GENERATION,)
REFERENCE = (Task.REFERENCE_INFERENCE,)
POLICY = (Task.ACTOR_TRAINING,)
CRITIC = (Task.CRITIC_INFERENCE, Task.CRITIC_TRAINING)

SECONDS = {
    Task.ACTOR_GENERATION: 1.0,
    Task.REFERENCE_INFERENCE: 3.0,
    Task.CRITIC_INFERENCE: 2.0,
    Task.ACTOR_TRAINING: 8.0,
    Task.CRITIC_TRAINING: 9.0,
}
PROXIMAL = 2.5
"""Of the policy's training, before its first gradient."""


def a_layout(*groups: tuple[Task, ...]) -> Layout:
    return Layout(
        tuple(
            tuple(
                TaskLayout(task, (), TrainingMode() if task in TRAINING_TASKS else None)
                for task in group
            )
            for group in groups
        )
    )


def costs_of(layout: Layout) -> dict[Task, TaskCost]:
    return {
        each.task: TaskCost(
            seconds=SECONDS[each.task],
            shares=(1.0,),
            rates=(1.0,),
            binding="compute",
            proximal_seconds=PROXIMAL if each.task is Task.ACTOR_TRAINING else 0.0,
        )
        for each in layout.tasks
    }


@pytest.mark.parametrize(
    ("groups", "side", "in_step", "longest", "apart"),
    [
        pytest.param((GENERATES, (*REFERENCE, *POLICY)), 11.0, 11.0, 11.0, 0.0, id="in turns"),
        pytest.param(
            (GENERATES, REFERENCE, POLICY), 11.0, 8.0, 8.0, 3.0, id="a reference with others' batch"
        ),
        pytest.param(
            (GENERATES, (*CRITIC, *POLICY)), 19.0, 19.0, 19.0, 0.0, id="a critic in its processes"
        ),
        pytest.param(
            (GENERATES, POLICY, CRITIC),
            2.5 + 9.0,
            2.5 + 9.0,
            2.5 + 9.0,
            0.0,
            id="a critic scores during the proximal passes, and trains longer",
        ),
        pytest.param(
            (GENERATES, (*REFERENCE, *POLICY), CRITIC),
            5.5 + 9.0,
            5.5 + 9.0,
            5.5 + 9.0,
            0.0,
            id="it waits for what its policy is compared with",
        ),
        pytest.param(
            (GENERATES, POLICY, (*REFERENCE, *CRITIC)),
            5.0 + 9.0,
            5.0 + 9.0,
            5.0 + 9.0,
            0.0,
            id="its policy waits for what both say",
        ),
        pytest.param(
            (GENERATES, POLICY, CRITIC, REFERENCE),
            3.0 + 9.0,
            2.5 + 9.0,
            2.5 + 9.0,
            3.0,
            id="three of them",
        ),
    ],
)
def test_step_times_follow_tasks_that_wait_for_each_other(
    groups: tuple[tuple[Task, ...], ...],
    side: float,
    in_step: float,
    longest: float,
    apart: float,
) -> None:
    layout = a_layout(*groups)
    costs = costs_of(layout)
    assert step.side_seconds(layout, costs) == side
    assert step.in_step_seconds(layout, costs) == in_step
    assert step.longest_seconds(layout, costs) == longest
    assert step.scoring_apart_seconds(layout, costs) == apart


def test_generation_on_trainer_gpus_runs_while_the_trainer_waits() -> None:
    layout = a_layout((*GENERATES, *POLICY), CRITIC)
    assert step.longest_seconds(layout, costs_of(layout)) == 2.5 + 9.0
