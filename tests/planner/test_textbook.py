"""Plans whose shape theory gives away, written down before the planner was asked.

Each row says what the right plan has, why, and where that is taught. Synchronous steps stand
where a shape is asked for: there every phase counts, so no task's cut is left to chance.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from hetrl_core.fleet.snapshot import ClusterSnapshot, Link
from hetrl_core.job.algorithm import AlgorithmSpec, AlgorithmType, Mode
from hetrl_core.job.spec import JobSpec, MinimiseCost, Strategy
from hetrl_core.plan.plan import Plan, Recompute, ReplicaGroup, Sharding
from hetrl_core.task import Task
from hetrl_planner.plan_job import plan
from hetrl_planner.problem.workload import tasks_of
from tests.builders import a_fleet, a_job, both

EVALUATIONS = 300

TEN_GIGABIT = Link(source="local", target="local", bytes_per_second=1.25e9, latency_seconds=50e-6)
ONE_GIGABIT_FAR = Link(source="east", target="west", bytes_per_second=0.125e9, latency_seconds=0.06)

ONE_MACHINE = a_fleet(h100=8)
TWO_SLOWLY_LINKED = a_fleet(a100_80=16, links=(TEN_GIGABIT,))
SMALL_SLOWLY_LINKED = a_fleet(a100=8, gpus_per_machine=2, links=(TEN_GIGABIT,))
TWO_REGIONS = both(
    a_fleet(h100=8, region="east"), a_fleet(h100=8, region="west"), links=(ONE_GIGABIT_FAR,)
)

Expectation = Callable[[Plan], None]


@cache
def made(fleet: ClusterSnapshot, job: JobSpec) -> Plan:
    found = plan(fleet, job, evaluations=EVALUATIONS)
    assert isinstance(found, Plan), found
    return found


def sync(model: str, **changes: object) -> JobSpec:
    return a_job(model, mode=Mode.SYNC, **changes)  # type: ignore[arg-type]


# ---- what a plan may be expected to have --------------------------------------------------------


def the_trainer(found: Plan) -> ReplicaGroup:
    """All replicas that train are cut alike; they may be in several groups of a plan."""
    return found.groups_with(Task.ACTOR_TRAINING)[0]


def gpus(found: Plan, task: Task) -> int:
    return sum(group.num_gpus for group in found.groups_with(task))


def trains_data_parallel(found: Plan) -> None:
    split = the_trainer(found).parallelism
    assert (split.tensor, split.num_stages) == (1, 1)
    assert gpus(found, Task.ACTOR_TRAINING) == 8


def divides_the_optimizer(found: Plan) -> None:
    mode = the_trainer(found).training_mode
    assert mode
    assert mode.sharding is not Sharding.NONE


def keeps_activations(found: Plan) -> None:
    mode = the_trainer(found).training_mode
    assert mode
    assert mode.recompute is Recompute.NONE


def trains_in_pipelines_across_machines(found: Plan) -> None:
    trainer = the_trainer(found)
    assert trainer.training_mode
    assert trainer.training_mode.sharding is not Sharding.FULL
    assert trainer.parallelism.num_stages > 1
    assert all(
        len({share.machine for share in replica.shares}) > 1
        for group in found.groups_with(Task.ACTOR_TRAINING)
        for replica in group.replicas
    )


def the_last_stage_has_fewest_layers(found: Plan) -> None:
    layers = the_trainer(found).parallelism.stage_layers
    assert len(layers) > 1
    assert layers[-1] == min(layers) < max(layers)


def works_with_every_gpu_in_each_phase(found: Plan) -> None:
    for task in (Task.ACTOR_TRAINING, Task.ACTOR_GENERATION):
        assert gpus(found, task) == found.num_gpus == 8


def generates_for_most_of_the_gpus_time(found: Plan) -> None:
    prediction = found.prediction
    generation = gpus(found, Task.ACTOR_GENERATION) * prediction.generation_seconds
    training = gpus(found, Task.ACTOR_TRAINING) * prediction.training_seconds
    assert generation > 2 * training


def trains_in_one_region(found: Plan) -> None:
    groups = found.groups_with(Task.ACTOR_TRAINING)
    regions = {group.region for group in groups}
    regions |= {region for group in groups for _, region in group.stage_sites}
    assert len(regions) == 1


def generates_whole_on_each_gpu(found: Plan) -> None:
    splits = {group.parallelism for group in found.groups_with(Task.ACTOR_GENERATION)}
    assert {(split.tensor, split.num_stages) for split in splits} == {(1, 1)}


def generates_tensor_parallel(found: Plan) -> None:
    assert all(group.parallelism.tensor > 1 for group in found.groups_with(Task.ACTOR_GENERATION))


def trains_where_flops_are_and_generates_where_hbm_is(found: Plan) -> None:
    def kinds(task: Task) -> set[str]:
        return {kind for group in found.groups_with(task) for kind in group.gpu_kinds}

    assert kinds(Task.ACTOR_TRAINING) == {"H800-80GB"}
    assert "H20" in kinds(Task.ACTOR_GENERATION)


def takes_one_gpu(found: Plan) -> None:
    assert found.num_gpus == 1


# ---- the table ----------------------------------------------------------------------------------

SMALL_MODEL = sync("Qwen3-0.6B")
ON_A_SLOW_NETWORK = sync("Qwen3-14B", global_batch_size=512)
"""Twice the usual batch: with less, one machine alone is as fast, for no weights cross then."""
LARGER_THAN_A_MACHINE = sync("Qwen3-8B")

ON_ONE_MACHINE = [
    # Tensor parallelism sends activations in every layer and a pipeline has a bubble; replicas
    # sum gradients once a step. Split only what does not fit (Megatron-LM, Narayanan et al.,
    # 2021, takeaway 2).
    pytest.param(ONE_MACHINE, SMALL_MODEL, trains_data_parallel, id="it fits, so data parallel"),
    # ZeRO-1 moves as many bytes as an all-reduce and saves 12 bytes a parameter (Rajbhandari et
    # al., ZeRO, 2020, section 7).
    pytest.param(ONE_MACHINE, SMALL_MODEL, divides_the_optimizer, id="replicas divide optimizer"),
    # Recomputing costs a third more arithmetic and buys nothing where memory is free (Korthikanti
    # et al., Reducing Activation Recomputation, 2022).
    pytest.param(ONE_MACHINE, SMALL_MODEL, keeps_activations, id="room, so no recomputation"),
    # Prices are linear in GPUs, so more than the pace needs is waste.
    pytest.param(
        ONE_MACHINE,
        a_job("Qwen3-0.6B", objective=MinimiseCost(1.0)),
        takes_one_gpu,
        id="a slow pace, so one GPU",
    ),
]

CASES = [
    # 14B: 24 s to sum gradients over 10 Gbit/s, twice that and more to gather weights, 6 s for a
    # batch's activations: tensor parallel inside machines, stages across (Megatron-LM, takeaway 1).
    pytest.param(
        TWO_SLOWLY_LINKED,
        ON_A_SLOW_NETWORK,
        trains_in_pipelines_across_machines,
        id="activations are what crosses a slow network",
    ),
    # 8B in two 40 GB GPUs: no machine holds it. ZeRO-3 would gather 16 GB a pass over 10 Gbit/s
    # (ZeRO, section 7.2.2); stages send 4 MB a trajectory.
    pytest.param(
        SMALL_SLOWLY_LINKED,
        LARGER_THAN_A_MACHINE,
        trains_in_pipelines_across_machines,
        id="larger than a machine, so stages",
    ),
    # The output matrix of 152,000 tokens costs the last stage as much as three layers (The Llama 3
    # Herd of Models, 2024, section 3.3.2: a layer less on the last stage).
    pytest.param(
        SMALL_SLOWLY_LINKED,
        LARGER_THAN_A_MACHINE,
        the_last_stage_has_fewest_layers,
        id="the vocabulary counts as layers",
    ),
    # One kind, one phase after the other: GPUs of a task of their own would wait for the others
    # (HybridFlow, Sheng et al., 2025; verl's default).
    pytest.param(
        ONE_MACHINE,
        sync("Qwen3-1.7B"),
        works_with_every_gpu_in_each_phase,
        id="synchronous, so colocated",
    ),
    # Decoding reads weights and caches for each token, training reuses both over all tokens: AReaL
    # (Fu et al., 2025) gives 3 of 4 GPUs to generation. On GPUs of its own or in turns with
    # training it needs most of their time.
    pytest.param(
        a_fleet(h100=16),
        a_job("Qwen3-4B", max_response_tokens=16384),
        generates_for_most_of_the_gpus_time,
        id="long responses, so GPUs mostly generate",
    ),
    # 64 s for the gradients of 4B over 1 Gbit/s, 16 s for activations; training takes 2 s in one
    # region (StreamRL, 2025: between data centres go trajectories and weights).
    pytest.param(
        TWO_REGIONS,
        a_job("Qwen3-4B"),
        trains_in_one_region,
        id="a slow link keeps the trainer home",
    ),
    # 256 trajectories a GPU hide reading the weights; without NVLink, all-reduces cost more than
    # dividing them saves (Pope et al., Efficiently Scaling Transformer Inference, 2022).
    pytest.param(
        a_fleet(l40s=8),
        sync("Qwen3-1.7B", global_batch_size=2048),
        generates_whole_on_each_gpu,
        id="throughput, so no tensor parallelism",
    ),
    # One trajectory a GPU: a token takes as long as reading the weights, which tensor parallelism
    # divides (Pope et al., 2022).
    pytest.param(
        ONE_MACHINE,
        sync("Qwen3-8B", global_batch_size=8, max_response_tokens=4096),
        generates_tensor_parallel,
        id="latency, so tensor parallelism",
    ),
    # 989 against 148 TFLOPS, 3.35 against 4 TB/s (AReaL-Hex, 2025).
    pytest.param(
        a_fleet(h800=8, h20=8),
        a_job("Qwen3-4B", max_response_tokens=16384),
        trains_where_flops_are_and_generates_where_hbm_is,
        id="each kind does what it is good at",
    ),
]


@pytest.mark.parametrize(("fleet", "job", "expected"), ON_ONE_MACHINE)
@pytest.mark.slow
def test_plan_for_one_machine_has_the_shape_of_the_textbook(
    fleet: ClusterSnapshot, job: JobSpec, expected: Expectation
) -> None:
    expected(made(fleet, job))


@pytest.mark.slow
@pytest.mark.parametrize(("fleet", "job", "expected"), CASES)
def test_plan_has_the_shape_of_the_textbook(
    fleet: ClusterSnapshot, job: JobSpec, expected: Expectation
) -> None:
    expected(made(fleet, job))


WITH_REFERENCE = replace(SMALL_MODEL, algorithm=replace(SMALL_MODEL.algorithm, kl_coefficient=0.01))
PPO = AlgorithmSpec(type=AlgorithmType.PPO, mode=Mode.SYNC, max_staleness=0)

COMPARISONS = [
    # Sharing GPUs is one more choice, on the same cost model (HetRL, 2025).
    pytest.param(
        ONE_MACHINE,
        sync("Qwen3-1.7B"),
        sync("Qwen3-1.7B", strategy=Strategy.AREAL_HEX),
        id="colocated tasks beside disjoint ones",
    ),
    # No phase waits for the other, nor for the longest response (AReaL, 2025).
    pytest.param(
        a_fleet(h100=16),
        a_job("Qwen3-4B", max_response_tokens=16384, max_staleness=4),
        sync("Qwen3-4B", max_response_tokens=16384),
        id="ahead of training beside on-policy",
    ),
    # One more forward pass over the batch.
    pytest.param(ONE_MACHINE, SMALL_MODEL, WITH_REFERENCE, id="no reference beside one"),
    # A critic as large as the actor is trained and asked as well (Schulman et al., PPO, 2017).
    pytest.param(
        ONE_MACHINE, SMALL_MODEL, replace(SMALL_MODEL, algorithm=PPO), id="GRPO beside PPO"
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("fleet", "faster", "slower"), COMPARISONS)
def test_step_of_the_faster_job_is_shorter(
    fleet: ClusterSnapshot, faster: JobSpec, slower: JobSpec
) -> None:
    short, long = (made(fleet, job).prediction.step_seconds for job in (faster, slower))
    assert short < long


@pytest.mark.slow
def test_ppo_plans_what_its_critic_does() -> None:
    found = made(ONE_MACHINE, replace(SMALL_MODEL, algorithm=PPO))
    planned = {task for group in found.groups for task in group.tasks}
    assert {Task.CRITIC_INFERENCE, Task.CRITIC_TRAINING} <= planned


@pytest.mark.parametrize(("coefficient", "is_planned"), [(0.0, False), (0.01, True)])
def test_reference_is_planned_where_its_term_counts(coefficient: float, is_planned: bool) -> None:
    # DAPO (Yu et al., 2025) trains without one.
    job = a_job(algorithm=AlgorithmSpec(kl_coefficient=coefficient))
    assert (Task.REFERENCE_INFERENCE in tasks_of(job)) == is_planned


@pytest.mark.parametrize("is_planned", [False, True])
def test_rewards_are_planned_where_a_model_gives_them(is_planned: bool) -> None:
    tasks = tasks_of(a_job(has_reward_model=is_planned))
    assert (Task.REWARD_INFERENCE in tasks) == is_planned
