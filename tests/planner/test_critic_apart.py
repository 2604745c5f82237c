"""A critic with GPUs of its own in runnable plans, and its later replans."""

from dataclasses import replace

import pytest

from hetrl_core.fleet.snapshot import ClusterSnapshot, Link
from hetrl_core.job.algorithm import AlgorithmSpec, AlgorithmType, Mode
from hetrl_core.job.spec import JobSpec, Strategy
from hetrl_core.plan.capabilities import obstacles
from hetrl_core.plan.groupings import GROUPINGS, TRAINS_CRITIC, grouping
from hetrl_core.plan.plan import Parallelism, Plan, ReplicaGroup
from hetrl_core.plan.training_split import critic_split, training_split
from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.cost.memory import training_state_bytes
from hetrl_planner.explain.bound import bound_on
from hetrl_planner.hetrl.genome.genome import Genome
from hetrl_planner.hetrl.search.neighbours import exchanged_gpus
from hetrl_planner.phase1.space import space_of
from hetrl_planner.plan_job import plan
from hetrl_planner.problem.goals import Fastest
from hetrl_planner.replan.improve import predict
from hetrl_planner.replan.resize import resize_rollouts
from hetrl_planner.replan.validate import misfits
from tests.builders import a_fleet, a_job, both

pytestmark = pytest.mark.slow

GIGABIT = Link(source="east", target="west", bytes_per_second=0.125e9, latency_seconds=0.03)

TWO_REGIONS = both(
    a_fleet(a100_80=4, region="east"), a_fleet(a100_80=4, region="west"), links=(GIGABIT,)
)
"""Neither weights nor gradients cross that line in time: what a critic says, does."""

PPO = AlgorithmSpec(type=AlgorithmType.PPO, max_staleness=2)
JOB = a_job("Qwen3-1.7B", algorithm=PPO)
WITH_A_REFERENCE = replace(JOB, algorithm=replace(PPO, kl_coefficient=0.01))


def made(fleet: ClusterSnapshot, job: JobSpec) -> Plan:
    found = plan(fleet, job, runnable_only=True)
    assert isinstance(found, Plan), found
    assert obstacles(found, job) == ()
    assert grouping(group.tasks for group in found.groups) in GROUPINGS
    return found


def with_strategy(job: JobSpec, strategy: Strategy) -> JobSpec:
    return replace(job, planning=replace(job.planning, strategy=strategy))


def critics(found: Plan) -> list[ReplicaGroup]:
    """The groups that train a critic apart."""
    return [each for each in found.groups if frozenset(each.tasks) in TRAINS_CRITIC]


@pytest.fixture(scope="module")
def apart() -> Plan:
    return made(TWO_REGIONS, JOB)


def test_critic_is_placed_where_no_other_trainer_task_fits(apart: Plan) -> None:
    policy, critic = apart.groups_with(Task.ACTOR_TRAINING), critics(apart)
    assert {each.region for each in critic} != {each.region for each in policy}
    together = made(TWO_REGIONS, with_strategy(JOB, Strategy.AREAL_HEX))
    assert not critics(together)
    assert apart.prediction.step_seconds < 0.8 * together.prediction.step_seconds


def test_training_groups_come_first_in_a_plan(apart: Plan) -> None:
    first, second, *others = apart.groups
    assert Task.ACTOR_TRAINING in first.tasks
    assert second in critics(apart)
    assert not any(TRAINING_TASKS.intersection(each.tasks) for each in others)


def test_models_are_split_alike_and_replicas_have_work(apart: Plan) -> None:
    assert critic_split(apart)
    for split in (training_split(apart), critic_split(apart)):
        assert split
        assert min(split.shares) > 0
    (critic,) = critics(apart)
    assert critic.training_mode


def test_policy_and_critic_apart_do_not_hold_each_others_state(apart: Plan) -> None:
    assert JOB.model.architecture
    whole = training_state_bytes(JOB.model.architecture.num_parameters)
    for task in TRAINING_TASKS:
        (group,) = apart.groups_with(task)
        kept = group.memory.gradients_bytes + group.memory.optimizer_bytes
        assert kept < whole


def test_step_takes_as_long_as_both_trainings_need(apart: Plan) -> None:
    expected = apart.prediction
    slowest = min(
        sum(len(each.replicas) * each.samples_per_second for each in apart.groups_with(task))
        for task in TRAINING_TASKS
    )
    assert expected.training_seconds >= JOB.algorithm.global_batch_size / slowest
    assert expected.training_seconds <= expected.step_seconds * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("job", [JOB, WITH_A_REFERENCE], ids=["no reference", "with a reference"])
@pytest.mark.parametrize("strategy", [Strategy.AUTO, Strategy.HETRL, Strategy.ILP])
def test_group_searches_find_that_it_pays(strategy: Strategy, job: JobSpec) -> None:
    found = made(TWO_REGIONS, with_strategy(job, strategy))
    assert critics(found)
    best = made(TWO_REGIONS, job).prediction.step_seconds
    assert found.prediction.step_seconds == pytest.approx(best, rel=0.05)


@pytest.mark.slow
def test_synchronous_step_waits_for_both() -> None:
    algorithm = replace(PPO, mode=Mode.SYNC, max_staleness=0)
    job = replace(JOB, algorithm=algorithm)
    found = made(TWO_REGIONS, job)
    together = made(TWO_REGIONS, with_strategy(job, Strategy.AREAL_HEX))
    assert found.prediction.step_seconds <= together.prediction.step_seconds
    expected = found.prediction
    assert expected.step_seconds == pytest.approx(
        expected.generation_seconds + expected.training_seconds
    )


@pytest.mark.slow
@pytest.mark.parametrize("mode", Mode)
def test_plan_with_a_critic_apart_stays_below_the_bound(mode: Mode) -> None:
    algorithm = replace(PPO, mode=mode, max_staleness=0 if mode is Mode.SYNC else 2)
    job = replace(JOB, algorithm=algorithm)
    space = space_of(TWO_REGIONS, job, runnable_only=True)
    found = made(TWO_REGIONS, with_strategy(job, Strategy.ILP))
    step_seconds = found.prediction.step_seconds
    known = bound_on(space, Fastest(), window_seconds=step_seconds)
    assert known
    assert known.value <= step_seconds


@pytest.mark.slow
def test_job_without_a_critic_has_none_apart() -> None:
    assert not critics(made(TWO_REGIONS, a_job("Qwen3-1.7B")))


# ---- what evolution changes ----------------------------------------------------------------------


def test_policy_and_critic_may_exchange_gpus() -> None:
    grouping = (
        (Task.ACTOR_GENERATION,),
        (Task.CRITIC_INFERENCE, Task.CRITIC_TRAINING),
        (Task.ACTOR_TRAINING,),
    )
    genome = Genome(
        grouping=grouping,
        counts=((1, 3, 4), (0, 0, 2)),
        order=(0, 1),
        orders=((Task.ACTOR_TRAINING, (1, 0)),),
    )
    found = exchanged_gpus(genome, Task.ACTOR_TRAINING, Task.CRITIC_TRAINING)
    assert found.grouping == grouping
    assert found.counts == ((1, 4, 3), (0, 2, 0))
    assert found.orders == ((Task.CRITIC_TRAINING, (1, 0)),)


# ---- a plan that runs, later ---------------------------------------------------------------------


def test_plan_is_worth_what_it_was_made_for(apart: Plan) -> None:
    assert misfits(apart, TWO_REGIONS, JOB) == ()
    now = predict(apart, TWO_REGIONS, JOB)
    assert now
    assert now.step_seconds == pytest.approx(apart.prediction.step_seconds)
    assert now.training_seconds == pytest.approx(apart.prediction.training_seconds)


@pytest.mark.slow
def test_critic_stays_where_it_is_when_rollouts_change() -> None:
    found = made(both(TWO_REGIONS, a_fleet(a100=2, region="east", gpus_per_machine=1)), JOB)
    fleet = both(TWO_REGIONS, a_fleet(a100=2, l40s=4, region="east", gpus_per_machine=1))
    (policy,) = found.groups_with(Task.ACTOR_TRAINING)
    assert Task.ACTOR_GENERATION not in policy.tasks
    asked = replace(JOB, rollout=replace(JOB.rollout, replicas=2))
    changed = resize_rollouts(found, fleet, asked)
    assert changed
    assert critics(changed) == critics(found)
    assert changed.groups_with(Task.ACTOR_TRAINING) == (policy,)


def test_critic_replicas_beyond_the_sequences_of_a_minibatch_are_refused(apart: Plan) -> None:
    job = replace(JOB, algorithm=replace(PPO, global_batch_size=16, minibatches=16))
    said = misfits(apart, TWO_REGIONS, job)
    assert any(each.startswith("critic training replicas of the plan must be") for each in said)


def test_critic_that_is_split_in_two_ways_does_not_fit(apart: Plan) -> None:
    (critic,) = critics(apart)
    first, *others = critic.replicas
    cut = replace(
        critic, replicas=(first,), parallelism=Parallelism(tensor=1, stage_layers=(20, 8))
    )
    groups = [each for each in apart.groups if each is not critic]
    said = misfits(
        replace(apart, groups=(*groups, cut, replace(critic, replicas=tuple(others)))),
        TWO_REGIONS,
        JOB,
    )
    assert said
