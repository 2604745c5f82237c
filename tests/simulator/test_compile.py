"""From a plan to a pipeline, and predicted against simulated."""

from dataclasses import replace
from functools import cache

import pytest

from hetrl_core.fleet.snapshot import Link
from hetrl_core.job.algorithm import AlgorithmSpec, AlgorithmType, Mode
from hetrl_core.job.spec import JobSpec, Strategy
from hetrl_core.plan.plan import MemoryUse, Parallelism, Plan, Replica, ReplicaGroup, Share
from hetrl_core.plan.training_split import critic_split
from hetrl_core.task import Task
from hetrl_planner.plan_job import plan
from hetrl_planner.problem.lengths import lognormal_of_max
from hetrl_planner.simulator.pipeline.compile import compile_plan
from tests.builders import a_fleet, a_job, both
from tests.simulator.pipelines import play

MODEL = "Qwen3-1.7B"
FLEET = a_fleet(a100=4)


@cache
def planned(job: JobSpec) -> Plan:
    found = plan(FLEET, job)
    assert isinstance(found, Plan), found
    return found


SYNC = a_job(MODEL, mode=Mode.SYNC)
ASYNC = a_job(MODEL, max_staleness=2)


@pytest.mark.slow
def test_pipeline_has_the_plans_replicas_places_times_and_price() -> None:
    made = planned(ASYNC)
    pipeline = compile_plan(made, ASYNC, FLEET)
    assert pipeline.trainer.step_seconds == pytest.approx(made.prediction.training_seconds)
    assert pipeline.dollars_per_hour == pytest.approx(made.prediction.dollars_per_hour)
    generating = made.groups_with(Task.ACTOR_GENERATION)
    assert [(each.num_replicas, each.num_places) for each in pipeline.rollouts] == [
        (len(group.replicas), group.concurrency) for group in generating
    ]
    # A full replica that never waits has the rate that the cost model gives it.
    for each, group in zip(pipeline.rollouts, generating, strict=True):
        sample_seconds = 512 * each.token_seconds[-1] + each.num_places * each.prefill_seconds
        assert each.num_places / sample_seconds == pytest.approx(group.samples_per_second, rel=0.02)


@pytest.mark.slow
def test_synchronous_step_is_as_long_as_predicted() -> None:
    made = planned(SYNC)
    result = play(compile_plan(made, SYNC, FLEET), steps=20)
    assert result.staleness.max == 0
    assert result.step_seconds.mean == pytest.approx(made.prediction.step_seconds, rel=0.15)


@pytest.mark.slow
def test_longer_tail_slows_model_and_simulation_alike() -> None:
    def steps(max_response_tokens: int) -> tuple[float, float]:
        job = a_job(MODEL, mode=Mode.SYNC, max_response_tokens=max_response_tokens)
        job = replace(job, data=replace(job.data, mean_response_tokens=512))
        made = planned(job)
        result = play(compile_plan(made, job, FLEET), steps=12)
        return made.prediction.step_seconds, result.step_seconds.mean

    predicted, simulated = zip(*(steps(most) for most in (600, 2048)), strict=True)
    assert predicted[0] < predicted[1]
    assert simulated[0] < simulated[1]


@pytest.mark.slow
def test_asynchronous_step_is_as_predicted_under_the_models_assumptions() -> None:
    # Nothing waits for a group, for the strict check or for weights: lengths may differ then.
    made = planned(ASYNC)
    pipeline = replace(
        compile_plan(made, ASYNC, FLEET), group_size=1, checks_consumption=False, routes=()
    )
    result = play(pipeline, steps=30)
    assert result.step_seconds.mean == pytest.approx(made.prediction.step_seconds, rel=0.1)


def test_remote_region_waits_for_its_link_and_pays_egress() -> None:
    link = Link(
        source="east",
        target="west",
        bytes_per_second=0.5e9,
        latency_seconds=0.05,
        egress_dollars_per_gib=0.02,
    )
    fleet = both(a_fleet(a100=8, region="east"), a_fleet(l4=8, region="west"), links=(link,))
    made = a_plan(
        trainer=("east-a100-40gb-0", 8, "A100-40GB", "east"),
        rollouts=("west-l4-0", 8, "L4", "west"),
    )
    pipeline = compile_plan(made, a_job(MODEL), fleet)
    (route,) = pipeline.routes
    assert route.region == "west"
    assert route.transfer_seconds > 5
    assert route.transferred_gib == pytest.approx(3.2, abs=0.2)
    result = play(pipeline, steps=6, warmup_steps=3)
    assert result.dollars.egress == pytest.approx(3 * 0.02 * route.transferred_gib, rel=0.5)


SLOW = Link(source="east", target="west", bytes_per_second=0.5e9, latency_seconds=0.05)
TWO_REGIONS = both(a_fleet(a100=8, region="east"), a_fleet(l4=8, region="west"), links=(SLOW,))


@pytest.mark.slow
@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("model", ["Qwen3-1.7B", "Qwen3-8B"])
def test_weights_travel_as_long_as_the_plan_says(model: str, mode: Mode) -> None:
    # Sent within a region or into another, or gathered where a task trains on the same GPUs.
    job = a_job(model, mode=mode)
    made = plan(TWO_REGIONS, job, evaluations=80)
    assert isinstance(made, Plan), made
    routes = compile_plan(made, job, TWO_REGIONS).routes
    longest = max(each.transfer_seconds + each.load_seconds for each in routes)
    assert longest == pytest.approx(made.prediction.weight_sync_seconds, rel=1e-6)


def test_trainer_in_two_regions_sends_its_parts_to_the_other() -> None:
    here, there = ("east-a100-40gb-0", 1, "A100-40GB", "east"), ("west-l4-0", 4, "L4", "west")
    whole = a_plan(trainer=here, rollouts=there)
    trainer, rollouts = whole.groups
    stages = (Share(machine=here[0], num_gpus=1), Share(machine=there[0], num_gpus=1))
    split = replace(
        trainer,
        parallelism=Parallelism(tensor=1, stage_layers=(21, 7)),
        stage_sites=(here[2:], there[2:]),
        replicas=(Replica(shares=stages),),
    )
    sent, partly_sent = (
        compile_plan(each, a_job(MODEL), TWO_REGIONS).routes[0]
        for each in (whole, replace(whole, groups=(split, rollouts)))
    )
    assert partly_sent.transferred_gib == pytest.approx(0.75 * sent.transferred_gib)
    assert partly_sent.transfer_seconds == pytest.approx(0.75 * sent.transfer_seconds, rel=0.01)


def test_groups_on_shared_gpus_take_turns_and_are_paid_once() -> None:
    here = ("local-a100", 8, "A100-40GB", "local")
    made = a_plan(trainer=here, rollouts=here, first_gpu=0)
    fleet = a_fleet(a100=8)
    name = fleet.machines[0].name
    made = replace(made, groups=tuple(on_machine(group, name) for group in made.groups))
    pipeline = compile_plan(made, a_job(MODEL), fleet)
    assert [each.name for each in pipeline.shared_gpus] == ["GPUs 0"]
    assert pipeline.trainer.gpus == ("GPUs 0",)
    assert pipeline.rollouts[0].gpus == "GPUs 0"
    assert pipeline.dollars_per_hour == pytest.approx(8 * fleet.kind("A100-40GB").dollars_per_hour)
    assert play(pipeline, steps=6).rollouts[0].yielded_share > 0.1


GIGABIT = Link(source="east", target="west", bytes_per_second=0.125e9, latency_seconds=0.03)
APART_FLEET = both(
    a_fleet(a100_80=4, region="east"), a_fleet(a100_80=4, region="west"), links=(GIGABIT,)
)


@pytest.mark.parametrize("kl_coefficient", [0.0, 0.01], ids=["no reference", "with a reference"])
@pytest.mark.slow
def test_policy_and_its_critic_keep_step(kl_coefficient: float) -> None:
    algorithm = AlgorithmSpec(
        type=AlgorithmType.PPO, max_staleness=2, kl_coefficient=kl_coefficient
    )
    job = a_job(MODEL, algorithm=algorithm, strategy=Strategy.ILP)
    made = plan(APART_FLEET, job, runnable_only=True)
    assert isinstance(made, Plan)
    assert critic_split(made)

    pipeline = compile_plan(made, job, APART_FLEET)

    # The step includes what both read and score; no other stage does it.
    assert pipeline.stages == ()
    (critic,) = pipeline.trainer.beside
    longest = max(pipeline.trainer.step_seconds, critic.step_seconds)
    assert longest == pytest.approx(made.prediction.training_seconds, rel=0.02)
    assert pipeline.dollars_per_hour == pytest.approx(made.prediction.dollars_per_hour)
    assert play(pipeline, steps=8).step_seconds.mean >= longest * (1 - 1e-9)


def test_machine_that_the_fleet_lacks_is_named() -> None:
    with pytest.raises(ValueError, match="is not in the fleet"):
        compile_plan(planned(ASYNC), ASYNC, a_fleet(l4=1))


def test_job_states_the_lengths_unless_they_are_given() -> None:
    pipeline = compile_plan(planned(ASYNC), ASYNC, FLEET)
    assert pipeline.lengths == lognormal_of_max(mean_tokens=512, max_tokens=1024)


Place = tuple[str, int, str, str]


def a_plan(*, trainer: Place, rollouts: Place, first_gpu: int | None = None) -> Plan:
    """A plan made by hand: replicas of one GPU each."""
    base = planned(ASYNC)
    return replace(
        base,
        groups=(
            a_group(Task.ACTOR_TRAINING, trainer, first_gpu=first_gpu, rate=2.0),
            a_group(Task.ACTOR_GENERATION, rollouts, first_gpu=first_gpu, rate=2.0),
        ),
    )


def a_group(task: Task, place: Place, *, first_gpu: int | None, rate: float) -> ReplicaGroup:
    machine, num_gpus, kind, region = place
    return ReplicaGroup(
        tasks=(task,),
        gpu_kind=kind,
        region=region,
        parallelism=Parallelism(tensor=1, stage_layers=(28,)),
        replicas=tuple(
            Replica(
                shares=(
                    Share(
                        machine=machine,
                        num_gpus=1,
                        first_gpu=None if first_gpu is None else first_gpu + number,
                    ),
                ),
                work_share=1 / num_gpus,
            )
            for number in range(num_gpus)
        ),
        concurrency=16 if task is Task.ACTOR_GENERATION else 0,
        samples_per_second=rate,
        memory=MemoryUse(weights_bytes=1),
    )


def on_machine(group: ReplicaGroup, name: str) -> ReplicaGroup:
    return replace(
        group,
        replicas=tuple(
            replace(each, shares=tuple(replace(share, machine=name) for share in each.shares))
            for each in group.replicas
        ),
    )
