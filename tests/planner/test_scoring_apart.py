"""A reference with GPUs of its own in runnable plans, and its later replans."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from hetrl_core.fleet.snapshot import ClusterSnapshot, Link
from hetrl_core.job.algorithm import AlgorithmSpec, AlgorithmType, Mode
from hetrl_core.job.spec import JobSpec, Strategy
from hetrl_core.plan.capabilities import obstacles
from hetrl_core.plan.groupings import SCORES, grouping
from hetrl_core.plan.plan import Infeasible, Parallelism, Plan, ReplicaGroup
from hetrl_core.task import Task
from hetrl_planner.hetrl.genome.decode import Decoder
from hetrl_planner.hetrl.genome.genome import Genome
from hetrl_planner.hetrl.genome.groupings import disjoint
from hetrl_planner.hetrl.search.search import search
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.objective import Objective
from hetrl_planner.phase1.space import space_of
from hetrl_planner.plan_job import never, plan
from hetrl_planner.problem.goals import Fastest
from hetrl_planner.replan.improve import improve_rollouts, predict
from hetrl_planner.replan.resize import resize_rollouts
from hetrl_planner.replan.validate import misfits
from tests.builders import a_fleet, a_job, both

pytestmark = pytest.mark.slow

GIGABIT = Link(source="east", target="west", bytes_per_second=0.125e9, latency_seconds=0.03)

SMALL_ONES_FAR_AWAY = both(
    a_fleet(a100_80=4, region="east"), a_fleet(l4=4, region="west"), links=(GIGABIT,)
)
"""Weights of 16 GB are two minutes on their way, and no pipeline crosses that line: the L4s are of
use only to whom tokens are sent."""

WITH_A_REFERENCE = AlgorithmSpec(kl_coefficient=0.01, max_staleness=2)
JOB = a_job("Qwen3-8B", algorithm=WITH_A_REFERENCE)


def made(fleet: ClusterSnapshot, job: JobSpec) -> Plan:
    found = plan(fleet, job, runnable_only=True)
    assert isinstance(found, Plan), found
    assert obstacles(found, job) == ()
    return found


def scoring(found: Plan) -> list[ReplicaGroup]:
    """The groups of inference workers."""
    return [each for each in found.groups if frozenset(each.tasks) in SCORES]


def seconds_in_the_trainer(fleet: ClusterSnapshot, job: JobSpec) -> float:
    """The shortest step that evolution finds with two groups: one generates, one does all else."""
    space = space_of(fleet, job, runnable_only=True)
    evaluator = Evaluator(space.work, Devices(snapshot=space.snapshot, sites=space.sites))
    found = search(
        evaluator,
        Objective(goal=Fastest(), limits=space.limits, devices=evaluator.devices),
        [disjoint(space.work.tasks)],
        evaluations=480,
        rng=np.random.default_rng(1),
        should_stop=never,
        runnable_only=True,
    )
    assert found
    return found.evaluation.step_seconds


@pytest.fixture(scope="module")
def apart() -> Plan:
    return made(SMALL_ONES_FAR_AWAY, JOB)


def test_reference_is_put_on_gpus_that_nothing_else_can_use(apart: Plan) -> None:
    assert {group.gpu_kind for group in scoring(apart)} == {"L4"}
    assert Task.REFERENCE_INFERENCE not in apart.groups_with(Task.ACTOR_TRAINING)[0].tasks
    together = seconds_in_the_trainer(SMALL_ONES_FAR_AWAY, JOB)
    assert apart.prediction.step_seconds < 0.8 * together


def test_training_time_excludes_scoring_by_other_groups(apart: Plan) -> None:
    expected = apart.prediction
    assert expected.training_seconds == pytest.approx(expected.step_seconds)


def test_replica_that_scores_is_one_pod(apart: Plan) -> None:
    for group in scoring(apart):
        assert group.parallelism.num_stages == 1
        assert all(len(replica.shares) == 1 for replica in group.replicas)
        assert all(replica.work_share > 0 for replica in group.replicas)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [Strategy.HETRL, Strategy.ILP])
def test_group_searches_find_that_it_pays(apart: Plan, strategy: Strategy) -> None:
    job = replace(JOB, planning=replace(JOB.planning, strategy=strategy))
    found = made(SMALL_ONES_FAR_AWAY, job)
    assert scoring(found)
    assert found.prediction.step_seconds == pytest.approx(apart.prediction.step_seconds, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    "job",
    [
        pytest.param(a_job("Qwen3-1.7B", algorithm=WITH_A_REFERENCE), id="every GPU is as good"),
        pytest.param(
            a_job(
                "Qwen3-1.7B", algorithm=replace(WITH_A_REFERENCE, mode=Mode.SYNC, max_staleness=0)
            ),
            id="GPUs of its own would wait for the rest of a step",
        ),
    ],
)
def test_reference_stays_in_the_trainer_where_that_is_no_slower(job: JobSpec) -> None:
    fleet = a_fleet(a100=8)
    found = made(fleet, job)
    assert not scoring(found)
    assert found.prediction.step_seconds <= 1.001 * seconds_in_the_trainer(fleet, job)


@pytest.mark.slow
def test_job_without_a_reference_has_two_groups() -> None:
    found = made(SMALL_ONES_FAR_AWAY, a_job("Qwen3-8B"))
    assert len(grouping(group.tasks for group in found.groups)) == 2


def test_scoring_without_room_in_the_trainer_is_put_elsewhere() -> None:
    algorithm = AlgorithmSpec(type=AlgorithmType.PPO, kl_coefficient=0.01, max_staleness=2)
    job = a_job("Qwen3-1.7B", algorithm=algorithm)
    found = made(a_fleet(a100_80=1, l4=1, gpus_per_machine=1), job)
    (trainer,) = found.groups_with(Task.ACTOR_TRAINING)
    assert trainer.gpu_kind == "A100-80GB"
    assert Task.REFERENCE_INFERENCE not in trainer.tasks
    too_few = plan(a_fleet(a100_80=1), job, runnable_only=True)
    assert isinstance(too_few, Infeasible)


@pytest.mark.slow
def test_phase_1_runs_where_the_ilp_only_finds_scoring_apart() -> None:
    algorithm = AlgorithmSpec(
        type=AlgorithmType.PPO, mode=Mode.SYNC, max_staleness=0, kl_coefficient=0.01
    )
    fleet, job = (
        a_fleet(l40s=16, a10g=8, gpus_per_machine=1),
        a_job("Qwen3-8B", algorithm=algorithm),
    )
    by_phase_1 = plan(fleet, job, runnable_only=True, evaluations=0)
    assert isinstance(by_phase_1, Plan)
    assert made(fleet, job).prediction.step_seconds <= by_phase_1.prediction.step_seconds


@pytest.mark.slow
def test_tiles_of_a_large_fleet_score_apart_as_well() -> None:
    far = both(a_fleet(a100_80=64, region="east"), a_fleet(l4=64, region="west"), links=(GIGABIT,))
    algorithm = replace(WITH_A_REFERENCE, global_batch_size=1024)
    found = made(far, a_job("Qwen3-8B", algorithm=algorithm))
    assert sum(group.num_gpus for group in scoring(found)) > 8


def test_models_of_one_inference_worker_are_split_compatibly() -> None:
    job = a_job("Qwen3-1.7B", algorithm=WITH_A_REFERENCE, has_reward_model=True)
    space = space_of(a_fleet(a100=4, l4=4), job, runnable_only=True)
    decoder = Decoder(
        Evaluator(space.work, Devices(snapshot=space.snapshot, sites=space.sites)),
        runnable_only=True,
    )
    splits = {
        task: set(decoder.fitting.splits(task, 0, reserved_bytes=0))
        for task in space.work.tasks[1:3]
    }
    assert (2, 1) in splits[Task.REFERENCE_INFERENCE]
    assert splits[Task.REWARD_INFERENCE] == {(1, 1)}

    generates, reference, reward, trains = space.work.tasks
    layout = decoder.decode(
        Genome(
            grouping=((generates,), (reference, reward), (trains,)),
            counts=((1, 0, 3), (0, 4, 0)),
            order=(0, 1),
            splits=((reference, 1, (2, 1)),),
        )
    )
    assert layout
    assert layout.task(reference).replicas == layout.task(reward).replicas
    assert {len(stage.gpus) for stage in layout.task(reference).stages} == {1}


# ---- a plan that runs, later ---------------------------------------------------------------------


def test_plan_is_worth_what_it_was_made_for(apart: Plan) -> None:
    assert misfits(apart, SMALL_ONES_FAR_AWAY, JOB) == ()
    now = predict(apart, SMALL_ONES_FAR_AWAY, JOB)
    assert now
    assert now.step_seconds == pytest.approx(apart.prediction.step_seconds)
    assert now.training_seconds == pytest.approx(apart.prediction.training_seconds)


def test_inference_workers_stay_where_they_are_when_rollouts_change(apart: Plan) -> None:
    more = both(SMALL_ONES_FAR_AWAY, a_fleet(a100=2, region="east", gpus_per_machine=1))
    asked = replace(JOB, rollout=replace(JOB.rollout, replicas=2))
    for found in (resize_rollouts(apart, more, asked), improve_rollouts(apart, more, JOB)):
        assert found
        assert scoring(found) == scoring(apart)
        taken = Counter[str]()
        for group in found.groups:
            for replica in group.replicas:
                taken.update({share.machine: share.num_gpus for share in replica.shares})
        sizes = {each.name: each.num_gpus for each in more.machines}
        assert all(number <= sizes[machine] for machine, number in taken.items())


def test_inference_workers_whose_machine_is_gone_cannot_stay(apart: Plan) -> None:
    home = scoring(apart)[0].replicas[0].shares[0].machine
    left = replace(
        SMALL_ONES_FAR_AWAY,
        machines=tuple(each for each in SMALL_ONES_FAR_AWAY.machines if each.name != home),
    )
    assert improve_rollouts(apart, left, JOB) is None
    assert predict(apart, left, JOB) is None


def test_pipeline_stages_that_score_do_not_fit(apart: Plan) -> None:
    def cut(group: ReplicaGroup) -> ReplicaGroup:
        return replace(group, parallelism=Parallelism(tensor=1, stage_layers=(18, 18)))

    groups = tuple(cut(each) if each in scoring(apart) else each for each in apart.groups)
    said = misfits(replace(apart, groups=groups), SMALL_ONES_FAR_AWAY, JOB)
    assert any("serves without pipeline stages" in each for each in said)


def test_replicas_of_a_task_may_be_in_several_groups(apart: Plan) -> None:
    def each_alone(group: ReplicaGroup) -> list[ReplicaGroup]:
        return [replace(group, replicas=(replica,)) for replica in group.replicas]

    alone = replace(
        apart, groups=tuple(each for group in apart.groups for each in each_alone(group))
    )
    assert len(alone.groups) > len(apart.groups)
    assert misfits(alone, SMALL_ONES_FAR_AWAY, JOB) == ()
    assert predict(alone, SMALL_ONES_FAR_AWAY, JOB) == predict(apart, SMALL_ONES_FAR_AWAY, JOB)
