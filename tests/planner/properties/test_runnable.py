"""Runnable plans: the runtime has no obstacles, and they keep every limit."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.algorithm import AlgorithmSpec, AlgorithmType
from hetrl_core.job.reward import Reward
from hetrl_core.job.spec import Engine, JobSpec, ModelFiles, Strategy
from hetrl_core.plan.capabilities import obstacles
from hetrl_core.plan.groupings import GROUPINGS, SCORES, TRAINS_CRITIC, grouping
from hetrl_core.plan.plan import Infeasible, Plan
from hetrl_core.plan.training_split import critic_split
from hetrl_core.task import Task, programs_of
from tests.builders import a_fleet, a_job
from tests.planner.properties.cases import FLEETS, LIMITED_JOBS, SMALL_FLEETS, PlanCase
from tests.planner.properties.limits import keeps_every_limit

WITH_A_REFERENCE = AlgorithmSpec(kl_coefficient=0.01)
WITH_A_CRITIC = AlgorithmSpec(type=AlgorithmType.PPO, kl_coefficient=0.01)


def with_a_reference(job: JobSpec) -> JobSpec:
    return replace(job, algorithm=replace(job.algorithm, kl_coefficient=0.01))


def with_a_critic(job: JobSpec) -> JobSpec:
    return replace(job, algorithm=replace(job.algorithm, type=AlgorithmType.PPO))


def with_a_reward_model(job: JobSpec) -> JobSpec:
    model = ModelFiles(source="models/reward")
    return replace(job, data=replace(job.data, reward=Reward.MODEL, model=model))


def runs(fleet: ClusterSnapshot, job: JobSpec) -> None:
    case = PlanCase(fleet, job, runnable_only=True)
    found = case.plan()
    if isinstance(found, Plan):
        is_listed(found)
        assert obstacles(found, job) == ()
    keeps_every_limit(case)


def is_listed(found: Plan) -> None:
    """Its tasks are grouped as the list has them, and what scores apart is whole on one machine."""
    assert grouping(group.tasks for group in found.groups) in GROUPINGS
    critic = critic_split(found)
    assert critic is None or critic.num_replicas > 0
    for group in found.groups:
        if len(programs_of(group.tasks)) > 1:
            assert group.parallelism.num_stages == 1
            assert all(share.first_gpu is None for each in group.replicas for share in each.shares)
        if frozenset(group.tasks) in TRAINS_CRITIC:
            assert group.training_mode
            assert all(replica.work_share > 0 for replica in group.replicas)
            assert all(share.first_gpu is None for each in group.replicas for share in each.shares)
        if frozenset(group.tasks) in SCORES:
            assert group.parallelism.num_stages == 1
            assert all(len(replica.shares) == 1 for replica in group.replicas)


@pytest.mark.slow
@settings(max_examples=5)
@given(fleet=SMALL_FLEETS, job=LIMITED_JOBS)
def test_auto_plans_what_runs(fleet: ClusterSnapshot, job: JobSpec) -> None:
    runs(fleet, job)


@pytest.mark.slow
@pytest.mark.parametrize("with_more", [with_a_critic, with_a_reference])
@settings(max_examples=5)
@given(fleet=SMALL_FLEETS, job=LIMITED_JOBS)
def test_auto_plans_what_runs_with_more_models(
    with_more: Callable[[JobSpec], JobSpec], fleet: ClusterSnapshot, job: JobSpec
) -> None:
    runs(fleet, with_more(job))


@pytest.mark.slow
@pytest.mark.parametrize("with_more", [with_a_critic, with_a_reference])
@settings(max_examples=15)
@given(fleet=FLEETS, job=LIMITED_JOBS)
def test_auto_plans_what_runs_with_more_models_for_many_jobs(
    with_more: Callable[[JobSpec], JobSpec], fleet: ClusterSnapshot, job: JobSpec
) -> None:
    runs(fleet, with_more(job))


@pytest.mark.slow
@settings(max_examples=15)
@given(fleet=FLEETS, job=LIMITED_JOBS.map(with_a_reward_model))
def test_auto_plans_what_runs_with_a_reward_model(fleet: ClusterSnapshot, job: JobSpec) -> None:
    runs(fleet, job)


@pytest.mark.slow
@settings(max_examples=12)
@given(fleet=FLEETS, job=LIMITED_JOBS)
def test_auto_plans_what_runs_for_many_jobs(fleet: ClusterSnapshot, job: JobSpec) -> None:
    runs(fleet, job)


@pytest.mark.slow
@pytest.mark.parametrize("engine", Engine)
@pytest.mark.parametrize("algorithm", [WITH_A_REFERENCE, WITH_A_CRITIC], ids=["GRPO", "PPO"])
@pytest.mark.parametrize("strategy", Strategy)
def test_strategies_plan_what_runs(
    strategy: Strategy, algorithm: AlgorithmSpec, engine: Engine
) -> None:
    job = a_job("Qwen3-0.6B", strategy=strategy, algorithm=algorithm, engine=engine)
    fleet = a_fleet(a100_80=4, l40s=4, l4=4, gpus_per_machine=2)
    found = PlanCase(fleet, job, runnable_only=True).plan()
    assert isinstance(found, Plan)
    is_listed(found)
    assert obstacles(found, job) == ()


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", [WITH_A_REFERENCE, WITH_A_CRITIC], ids=["GRPO", "PPO"])
def test_pipelines_of_several_kinds_run_and_do_more(algorithm: AlgorithmSpec) -> None:
    job = a_job("Qwen3-8B", algorithm=algorithm)
    fleet = a_fleet(a100=16, l40s=16, l4=16)
    searched = PlanCase(fleet, job, runnable_only=True)
    found, plain = searched.plan(), searched.plan(evaluations=0)
    assert isinstance(found, Plan)
    assert isinstance(plain, Plan)
    trains = found.groups_with(Task.ACTOR_TRAINING)
    assert len(frozenset[str]().union(*(group.gpu_kinds for group in trains))) > 1
    assert obstacles(found, job) == ()
    assert found.prediction.step_seconds < 0.9 * plain.prediction.step_seconds


@pytest.mark.slow
def test_model_that_needs_several_kinds_together_runs() -> None:
    job = a_job("Qwen3-8B", algorithm=WITH_A_REFERENCE)
    fleet = a_fleet(a100_80=2, l40s=2, gpus_per_machine=1)
    searched = PlanCase(fleet, job, runnable_only=True)
    found = searched.plan()
    assert isinstance(found, Plan)
    assert obstacles(found, job) == ()
    assert isinstance(searched.plan(evaluations=0), Infeasible)
