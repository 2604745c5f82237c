"""Every grouping of tasks that planner and runtime agree on: planned, and run to its end."""

from dataclasses import replace
from pathlib import Path

import pytest

from hetrl_core.algorithm import AlgorithmSpec, AlgorithmType, Mode
from hetrl_core.capabilities import obstacles
from hetrl_core.groupings import GROUPINGS, grouping
from hetrl_core.job import JobSpec, TrainingSpec
from hetrl_core.launch import ModelFiles
from hetrl_core.plan import Plan
from hetrl_core.podset import pod_sets
from hetrl_core.task import Role
from hetrl_core.training_split import training_split
from hetrl_planner.plan_job import plan
from hetrl_runtime.trainer.checkpoint import read
from tests.builders import a_fleet, a_job
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


def planned(job: JobSpec, **fleet: int) -> Plan:
    found = plan(a_fleet(**(fleet or {"a100_80": 1, "l4": 1})), job, runnable_only=True)
    assert isinstance(found, Plan)
    return found


def a_small_job(algorithm: AlgorithmSpec) -> JobSpec:
    return a_job("Qwen3-0.6B", algorithm=algorithm)


ANSWERS = [
    ("GRPO", False, "Qwen3-0.6B", {"a100_80": 1, "l4": 1}),
    ("PPO", False, "Qwen3-0.6B", {"a100_80": 1, "l4": 1}),
    ("GRPO with a reference", False, "Qwen3-0.6B", {"a100_80": 1, "l4": 1}),
    ("GRPO with a reference", False, "Qwen3-8B", {"a100_80": 3, "l4": 2}),
    ("PPO with a reference", False, "Qwen3-0.6B", {"a100_80": 1, "l4": 1}),
    ("PPO with a reference", False, "Qwen3-1.7B", {"a100_80": 1, "l4": 2}),
    ("GRPO", True, "Qwen3-0.6B", {"a100_80": 1, "l4": 2}),
    ("PPO", True, "Qwen3-0.6B", {"a100_80": 1, "l4": 2}),
    ("GRPO with a reference", True, "Qwen3-1.7B", {"a100_80": 2, "l4": 1}),
    ("GRPO with a reference", True, "Qwen3-4B", {"a100_80": 2, "l4": 2}),
    ("GRPO with a reference", True, "Qwen3-8B", {"a100_80": 4, "l4": 2}),
    ("PPO with a reference", True, "Qwen3-1.7B", {"a100_80": 2, "l4": 1}),
    ("PPO with a reference", True, "Qwen3-1.7B", {"a100_80": 2, "l4": 2}),
    ("PPO with a reference", True, "Qwen3-1.7B", {"a100_80": 3, "l4": 2}),
]
"""Jobs and fleets to which the groupings of the list are the answers: with a reward model, or
without, and on which GPUs."""


@pytest.mark.parametrize("mode", Mode)
def test_plans_that_run_are_in_the_list_and_all_of_the_list_is_planned(mode: Mode) -> None:
    found = set()
    for name, has_reward_model, model, fleet in ANSWERS:
        bound = 0 if mode is Mode.SYNC else 1
        algorithm = replace(ALGORITHMS[name], mode=mode, max_staleness=bound, global_batch_size=16)
        job = a_job(model, algorithm=algorithm, has_reward_model=has_reward_model)
        made = planned(job, **fleet)
        assert obstacles(made, job) == ()
        found.add(grouping(group.tasks for group in made.groups))

    assert found <= set(GROUPINGS)
    # A step at a time, a reference and a reward model seldom are worth GPUs each.
    assert found == set(GROUPINGS) or mode is Mode.SYNC


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
