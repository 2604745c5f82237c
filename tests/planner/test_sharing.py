"""Runnable plans in which tasks share GPUs, and the cases in which they are best."""

from dataclasses import replace

import numpy as np
import pytest

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.algorithm import AlgorithmSpec, AlgorithmType, Mode
from hetrl_core.job.spec import Engine, JobSpec, RolloutSpec, Strategy
from hetrl_core.plan.capabilities import obstacles
from hetrl_core.plan.groupings import GROUPINGS, TaskGroup, grouping
from hetrl_core.plan.plan import Infeasible, Plan
from hetrl_core.task import Task
from hetrl_core.units import GIB
from hetrl_planner.cost.memory import (
    GRADIENT_BYTES,
    MASTER_AND_ADAM_BYTES,
    PROGRAM_BYTES,
    SCORING_WEIGHT_BYTES,
    WEIGHT_BYTES,
    overhead_bytes,
)
from hetrl_planner.hetrl.genome.groupings import groupings
from hetrl_planner.hetrl.search.search import search
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.objective import Objective
from hetrl_planner.layout.to_plan import prediction, replica_groups
from hetrl_planner.phase1.space import space_of
from hetrl_planner.plan_job import never, plan
from hetrl_planner.problem.goals import Fastest
from hetrl_planner.replan.improve import improve_rollouts, predict
from hetrl_planner.replan.pricing import sides
from hetrl_planner.replan.resize import resize_rollouts
from hetrl_planner.replan.validate import misfits
from tests.builders import a_fleet, a_job, a_kind

SMALL = "Qwen3-0.6B"
ONE_GPU = a_fleet(a100_80=1)


def made(fleet: ClusterSnapshot, job: JobSpec) -> Plan:
    found = plan(fleet, job, runnable_only=True)
    assert isinstance(found, Plan), found
    assert obstacles(found, job) == ()
    return found


def a_job_of(tasks: frozenset[Task], mode: Mode = Mode.ASYNC, **changes: object) -> JobSpec:
    """A small job whose iteration consists of these tasks."""
    return a_job(
        SMALL,
        algorithm=AlgorithmSpec(
            type=AlgorithmType.PPO if Task.CRITIC_TRAINING in tasks else AlgorithmType.GRPO,
            kl_coefficient=0.01 if Task.REFERENCE_INFERENCE in tasks else 0.0,
            group_size=2,
            global_batch_size=4,
            mode=mode,
            max_staleness=0 if mode is Mode.SYNC else 1,
        ),
        has_reward_model=Task.REWARD_INFERENCE in tasks,
        **changes,  # type: ignore[arg-type]
    )


def planned_as(groups: frozenset[TaskGroup], job: JobSpec, fleet: ClusterSnapshot) -> Plan:
    """The plan that HetRL's search finds with one grouping alone."""
    space = space_of(fleet, job, runnable_only=True)
    evaluator = Evaluator(space.work, Devices(snapshot=space.snapshot, sites=space.sites))
    found = search(
        evaluator,
        Objective(goal=Fastest(), limits=space.limits, devices=evaluator.devices),
        [arm for arm in groupings(space.work.tasks, runnable_only=True) if grouping(arm) == groups],
        evaluations=2,
        rng=np.random.default_rng(1),
        should_stop=never,
        runnable_only=True,
    )
    assert found
    return Plan(
        strategy=Strategy.HETRL,
        groups=replica_groups(found.evaluation, evaluator),
        prediction=prediction(found.evaluation, space.work),
    )


# ---- all that runs can be planned ----------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("engine", Engine)
@pytest.mark.parametrize("mode", Mode)
def test_runnable_groupings_can_all_be_planned(mode: Mode, engine: Engine) -> None:
    for groups in GROUPINGS:
        job = a_job_of(frozenset[Task]().union(*groups), mode, engine=engine)
        made = planned_as(groups, job, a_fleet(a100_80=len(groups), gpus_per_machine=1))
        assert obstacles(made, job) == ()
        assert grouping(group.tasks for group in made.groups) == groups
        assert len(made.groups) == len(groups) == made.num_gpus


def test_group_of_several_programs_is_split_compatibly_with_all() -> None:
    """Of two GPUs with a link between them, a reward model's group uses each for itself."""
    reward = frozenset({Task.ACTOR_GENERATION, Task.REWARD_INFERENCE, Task.ACTOR_TRAINING})
    found = planned_as(frozenset({reward}), a_job_of(reward), a_fleet(h100=2))
    (group,) = found.groups
    assert group.parallelism.num_gpus == 1
    assert len(group.replicas) == 2


# ---- one GPU, and who is best together -----------------------------------------------------------


@pytest.mark.parametrize("strategy", [Strategy.AUTO, Strategy.HETRL, Strategy.ILP])
@pytest.mark.parametrize("mode", Mode)
def test_single_gpu_is_enough_for_a_whole_job(mode: Mode, strategy: Strategy) -> None:
    (group,) = made(ONE_GPU, a_job(SMALL, mode=mode, strategy=strategy)).groups
    assert set(group.tasks) == {Task.ACTOR_GENERATION, Task.ACTOR_TRAINING}
    assert group.num_gpus == 1
    assert group.concurrency > 1


@pytest.mark.parametrize("mode", Mode)
def test_single_gpu_is_enough_for_six_tasks(mode: Mode) -> None:
    (group,) = made(ONE_GPU, a_job_of(frozenset(Task), mode)).groups
    assert set(group.tasks) == set(Task)


def test_job_that_may_take_one_gpu_of_many_shares_it() -> None:
    found = made(a_fleet(a100_80=8, l4=8), a_job(SMALL, max_gpus=1))
    assert found.num_gpus == 1


@pytest.mark.parametrize("num_gpus", [1, 2, 4])
@pytest.mark.slow
def test_concurrent_tasks_share_gpus_only_as_a_last_resort(num_gpus: int) -> None:
    found = made(a_fleet(a100_80=num_gpus), a_job(SMALL, mode=Mode.ASYNC))
    generating = {task for each in found.groups_with(Task.ACTOR_GENERATION) for task in each.tasks}
    assert (Task.ACTOR_TRAINING in generating) is (num_gpus == 1)


def test_step_that_waits_for_its_batch_lets_trainers_generate() -> None:
    fleet = a_fleet(a100_80=2)
    shared = made(fleet, a_job(SMALL, mode=Mode.SYNC))
    apart = made(fleet, a_job(SMALL, mode=Mode.SYNC, strategy=Strategy.AREAL_HEX))
    assert len(shared.groups) == 1
    assert len(apart.groups) == 2
    assert shared.prediction.step_seconds < 0.8 * apart.prediction.step_seconds


@pytest.mark.parametrize("strategy", [Strategy.AREAL_HEX, Strategy.HOMOGENEOUS])
def test_strategies_of_two_groups_put_the_reward_model_in_trainers(strategy: Strategy) -> None:
    job = a_job(SMALL, strategy=strategy, has_reward_model=True)
    found = made(a_fleet(a100_80=4), job)
    (trainer,) = found.groups_with(Task.REWARD_INFERENCE)
    assert Task.ACTOR_TRAINING in trainer.tasks
    assert trainer.parallelism.num_gpus == 1


@pytest.mark.slow
def test_rollouts_are_counted_wherever_they_are() -> None:
    job = a_job(SMALL, mode=Mode.SYNC, rollout=RolloutSpec(replicas=2))
    found = made(a_fleet(a100_80=2), job)
    assert sum(len(each.replicas) for each in found.groups_with(Task.ACTOR_GENERATION)) == 2
    one = plan(ONE_GPU, job, runnable_only=True)
    assert isinstance(one, Infeasible)


# ---- memory --------------------------------------------------------------------------------------


def test_programs_keep_their_own_models() -> None:
    job = a_job_of(frozenset(Task))
    assert job.model.architecture
    model = job.model.architecture.num_parameters
    (group,) = made(ONE_GPU, job).groups
    trained = 2 * (WEIGHT_BYTES + GRADIENT_BYTES + MASTER_AND_ADAM_BYTES) * model
    frozen, generates = 3 * SCORING_WEIGHT_BYTES * model, WEIGHT_BYTES * model
    kept = group.memory
    models = kept.weights_bytes + kept.gradients_bytes + kept.optimizer_bytes
    assert models == pytest.approx(trained + frozen + generates, rel=1e-3)
    assert kept.kv_cache_bytes > 0
    assert kept.overhead_bytes >= overhead_bytes(a_kind("A100-80GB")) + 2 * PROGRAM_BYTES
    assert kept.total_bytes <= a_kind("A100-80GB").memory_bytes


def test_plan_that_fits_only_in_turns_is_refused() -> None:
    """The engine's weights and cache have no place beside the trainer's activations."""
    job = a_job("Qwen3-1.7B")
    small = a_fleet(kinds=(a_kind("L4", memory_bytes=40 * GIB),), l4=1)
    assert isinstance(plan(small, job), Plan)
    assert isinstance(plan(small, job, runnable_only=True), Infeasible)


# ---- a plan that runs, later ---------------------------------------------------------------------


def test_rollouts_on_shared_gpus_are_not_moved_alone() -> None:
    job = a_job(SMALL, mode=Mode.SYNC)
    fleet = a_fleet(a100_80=2)
    found = made(fleet, job)
    assert sides(found) is None
    assert resize_rollouts(found, fleet, job) is None
    assert improve_rollouts(found, fleet, job) is None


def test_plan_of_shared_gpus_keeps_its_worth() -> None:
    job = a_job_of(frozenset(Task))
    found = made(ONE_GPU, job)
    assert misfits(found, ONE_GPU, job) == ()
    now = predict(found, ONE_GPU, job)
    assert now
    assert now.step_seconds == pytest.approx(found.prediction.step_seconds)


def test_plan_without_cache_room_beside_the_trainer_does_not_fit() -> None:
    job = a_job("Qwen3-1.7B", global_batch_size=1024, max_response_tokens=4096)
    found = made(ONE_GPU, job)
    (group,) = found.groups
    crowded = replace(found, groups=(replace(group, concurrency=256),))
    (said,) = misfits(crowded, ONE_GPU, job)
    assert "spec.groups[0].concurrency must be <=" in said
