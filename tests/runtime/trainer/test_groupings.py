"""Groupings of tasks that are planned, run to their end."""

from pathlib import Path

import pytest

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.algorithm import AlgorithmSpec, AlgorithmType
from hetrl_core.job.spec import JobSpec, ModelFiles, TrainingSpec
from hetrl_core.plan.plan import Plan
from hetrl_core.plan.pod_sets import pod_sets
from hetrl_core.plan.training_split import training_split
from hetrl_core.task import Role
from hetrl_planner.plan_job import plan
from hetrl_runtime.trainer.checkpoints.checkpoint import read
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
        type=AlgorithmType.PPO,
        group_size=2,
        global_batch_size=4,
        max_staleness=1,
        kl_coefficient=0.1,
    ),
}


def planned(job: JobSpec, fleet: ClusterSnapshot | None = None) -> Plan:
    found = plan(fleet or a_fleet(a100_80=1, l4=1), job, runnable_only=True)
    assert isinstance(found, Plan)
    return found


def a_small_job(algorithm: AlgorithmSpec) -> JobSpec:
    return a_job("Qwen3-0.6B", algorithm=algorithm)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALGORITHMS)
async def test_planned_grouping_runs_to_its_end(
    tmp_path: Path, tiny_model: ModelFiles, name: str
) -> None:
    made = planned(a_small_job(ALGORITHMS[name]))
    (trainer,) = (each for each in pod_sets(made) if each.role is Role.TRAINER)
    launch = a_launch(
        tmp_path,
        role=Role.TRAINER,
        model=tiny_model,
        ranks=trainer.ranks,
        training_split=training_split(made),
        algorithm=ALGORITHMS[name],
        training=TrainingSpec(steps=2, learning_rate=1e-3),
        startup_deadline_seconds=240.0,
    )

    async with the_rest(launch, reward=some_reward), a_trainer(launch, tmp_path) as process:
        await succeed(process)

    last = steps(launch)[-1]
    has_critic = ALGORITHMS[name].type is AlgorithmType.PPO
    assert last["step"] == 2
    assert ("explained_variance" in last["metrics"]) is has_critic
    kept = read(Path(launch.checkpoint_path) / "step-00000002").optimizer
    assert ("critic/score.weight" in kept) is has_critic
