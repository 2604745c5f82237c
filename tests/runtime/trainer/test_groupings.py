"""Every grouping of tasks that planner and runtime agree on: planned, and run to its end."""

from dataclasses import replace
from pathlib import Path

import pytest

from hetrl_core.algorithm import AlgorithmSpec, AlgorithmType, Mode
from hetrl_core.capabilities import obstacles
from hetrl_core.cluster import ClusterSnapshot
from hetrl_core.groupings import GROUPINGS, TRAINS_CRITIC, TaskGroup, grouping
from hetrl_core.job import JobSpec, TrainingSpec
from hetrl_core.launch import ModelFiles
from hetrl_core.plan import Plan
from hetrl_core.podset import pod_sets
from hetrl_core.task import Role, Task
from hetrl_core.training_split import training_split
from hetrl_core.units import GIB
from hetrl_planner.plan_job import plan
from hetrl_runtime.trainer.checkpoint import read
from tests.builders import a_fleet, a_job, a_kind
from tests.runtime.launches import a_launch
from tests.runtime.trainer.test_trainer_process import (
    a_trainer,
    some_reward,
    steps,
    succeed,
    the_rest,
)

ALGORITHMS = {
    "GRPO": AlgorithmSpec(group_size=2, global_batch_size=4, max_staleness=1),
    "GRPO with a reference": AlgorithmSpec(
        group_size=2, global_batch_size=4, max_staleness=1, kl_coefficient=0.1
    ),
    "PPO": AlgorithmSpec(
        type=AlgorithmType.PPO, group_size=2, global_batch_size=4, max_staleness=1
    ),
    "PPO with a reference": AlgorithmSpec(
        type=AlgorithmType.PPO, group_size=2, global_batch_size=4, max_staleness=1,
        kl_coefficient=0.1,
    ),
}  # fmt: skip


def planned(job: JobSpec, fleet: ClusterSnapshot | None = None) -> Plan:
    found = plan(fleet or a_fleet(a100_80=1, l4=1), job, runnable_only=True)
    assert isinstance(found, Plan)
    return found


def a_small_job(algorithm: AlgorithmSpec) -> JobSpec:
    return a_job("Qwen3-0.6B", algorithm=algorithm)


def asked_for(groups: frozenset[TaskGroup], mode: Mode) -> tuple[JobSpec, ClusterSnapshot]:
    """A job and a fleet to which a grouping is the answer: a GPU that trains, and others."""
    tasks = frozenset[Task]().union(*groups)
    (trains,) = (group for group in groups if Task.ACTOR_TRAINING in group)
    has_critic, has_reference = Task.CRITIC_TRAINING in tasks, Task.REFERENCE_INFERENCE in tasks
    # Where the reference is elsewhere, the trainer's GPU has no room for it.
    has_room = not has_reference or Task.REFERENCE_INFERENCE in trains
    trainer = "a100_80" if has_room or has_critic else "a100"
    # The others have room for as many models as the largest of their groups has.
    most = max(len(group) for group in groups - {trains})
    other = a_kind(memory_bytes=(24 if has_room else 8 + 4 * most) * GIB)
    name = ("PPO" if has_critic else "GRPO") + (" with a reference" if has_reference else "")
    bound = 0 if mode is Mode.SYNC else 1
    job = a_job(
        "Qwen3-0.6B" if has_room else "Qwen3-1.7B",
        algorithm=replace(ALGORITHMS[name], mode=mode, max_staleness=bound),
        has_reward_model=Task.REWARD_INFERENCE in tasks,
    )
    sizes = {trainer: 1, "l4": len(groups) - 1}
    return job, a_fleet(kinds=(other,), gpus_per_machine=1, **sizes)


@pytest.mark.parametrize("mode", Mode)
def test_plans_that_run_are_in_the_list_and_all_of_the_list_is_planned(mode: Mode) -> None:
    # A critic apart is planned in tests/planner/test_critic_apart.py.
    for groups in (each for each in GROUPINGS if not each.intersection(TRAINS_CRITIC)):
        job, fleet = asked_for(groups, mode)
        made = planned(job, fleet)
        assert obstacles(made, job) == ()
        assert grouping(group.tasks for group in made.groups) == groups


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ALGORITHMS)
async def test_a_planned_grouping_runs_to_its_end(
    tmp_path: Path, tiny_model: ModelFiles, name: str
) -> None:
    made = planned(a_small_job(ALGORITHMS[name]))
    (trainer,) = (each for each in pod_sets(made) if each.role is Role.TRAINER)
    launch = a_launch(
        tmp_path, role=Role.TRAINER, model=tiny_model, ranks=trainer.ranks,
        training_split=training_split(made), algorithm=ALGORITHMS[name],
        training=TrainingSpec(steps=2, learning_rate=1e-3), startup_deadline_seconds=240.0,
    )  # fmt: skip

    async with the_rest(launch, reward=some_reward), a_trainer(launch, tmp_path) as process:
        await succeed(process)

    last = steps(launch)[-1]
    has_critic = ALGORITHMS[name].type is AlgorithmType.PPO
    assert last["step"] == 2
    assert ("explained_variance" in last["metrics"]) is has_critic
    kept = read(Path(launch.checkpoint_path) / "step-00000002").optimizer
    assert ("critic/score.weight" in kept) is has_critic
