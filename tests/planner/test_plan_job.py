import json
import random
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetrl_cli.plan import as_object
from hetrl_core.fleet.snapshot import ClusterSnapshot, Link, Machine
from hetrl_core.job.algorithm import Mode
from hetrl_core.job.spec import (
    Engine,
    JobSpec,
    MeetDeadline,
    MinimiseCost,
    Objective,
    PoolSpec,
    RolloutSpec,
    Strategy,
)
from hetrl_core.plan.capabilities import obstacles
from hetrl_core.plan.plan import Infeasible, Outcome, Plan, Sharding
from hetrl_core.plan.training_split import training_split
from hetrl_core.task import Task
from hetrl_planner import plan_job
from tests.builders import a_fleet, a_job, a_kind, both

HETRL_FLEET = a_fleet(a100=24, l40s=24, l4=16)
SMALL_FLEET = a_fleet(a100=16, l40s=8, l4=8)

# What evolution adds to phase 1 has tests of its own.
plan = partial(plan_job.plan, evaluations=0)


def made(fleet: ClusterSnapshot, job: JobSpec, *, runnable_only: bool = False) -> Plan:
    outcome = plan(fleet, job, runnable_only=runnable_only)
    assert isinstance(outcome, Plan), outcome
    return outcome


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        "Qwen3-8B",
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in ("Qwen3-1.7B", "Qwen3-4B", "Qwen3-14B")
        ),
    ],
)
def test_mixed_fleet_beats_each_of_its_kinds_alone(model: str) -> None:
    mixed = made(HETRL_FLEET, a_job(model))
    alone = made(HETRL_FLEET, a_job(model, strategy=Strategy.HOMOGENEOUS))
    assert mixed.prediction.samples_per_second > 1.2 * alone.prediction.samples_per_second
    assert len({group.gpu_kind for group in alone.groups}) == 1
    assert mixed.ended_by == "work"
    assert mixed.gap is not None
    assert 0 <= mixed.gap < 1


@pytest.mark.slow
def test_equal_inputs_give_equal_plans() -> None:
    assert made(SMALL_FLEET, a_job()) == made(a_fleet(a100=16, l40s=8, l4=8), a_job())


@pytest.mark.slow
def test_rejected_plans_say_how_much_slower_they_are() -> None:
    found = made(SMALL_FLEET, a_job("Qwen3-8B"))
    reasons = {each.summary: each.reason for each in found.rejected}
    assert {"A100-40GB alone", "L40S alone", "L4 alone"} <= set(reasons)
    alone = made(a_fleet(a100=16), a_job("Qwen3-8B"))
    slower = alone.prediction.step_seconds / found.prediction.step_seconds
    assert reasons["A100-40GB alone"].startswith(f"{slower:.2f}x the step time")


@pytest.mark.parametrize("engine", Engine)
@pytest.mark.slow
def test_small_model_gets_a_plan_that_this_release_runs(engine: Engine) -> None:
    job = a_job("Qwen3-1.7B", engine=engine)
    found = made(SMALL_FLEET, job, runnable_only=True)
    assert obstacles(found, job) == ()


@pytest.mark.slow
def test_model_too_large_for_one_gpu_trains_split() -> None:
    job = a_job("Qwen3-8B")
    found = made(SMALL_FLEET, job, runnable_only=True)
    (trains,) = found.groups_with(Task.ACTOR_TRAINING)
    assert trains.parallelism.num_gpus > 1
    assert obstacles(found, job) == ()


@pytest.mark.slow
def test_replicas_shard_what_they_need_not_all_hold() -> None:
    job = a_job("Qwen3-1.7B")
    found = made(SMALL_FLEET, job, runnable_only=True)
    (trains,) = found.groups_with(Task.ACTOR_TRAINING)
    assert len(trains.replicas) > 1
    assert trains.training_mode is not None
    assert trains.training_mode.sharding is not Sharding.NONE
    assert obstacles(found, job) == ()


def test_single_machine_is_enough_for_a_small_model() -> None:
    kinds = a_fleet(a100_80=2, l4=1)
    found = made(kinds, a_job("Qwen3-0.6B", rollout=RolloutSpec(replicas=2)), runnable_only=True)
    assert found.groups[0].tasks == (Task.ACTOR_TRAINING,)
    assert sum(len(each.replicas) for each in found.groups_with(Task.ACTOR_GENERATION)) == 2
    assert found.num_gpus == 3


@pytest.mark.parametrize("replicas", [1, 5])
@pytest.mark.slow
def test_target_number_of_rollouts_is_met(replicas: int) -> None:
    found = made(a_fleet(a100=4, l4=4), a_job(rollout=RolloutSpec(replicas=replicas)))
    groups = found.groups_with(Task.ACTOR_GENERATION)
    assert sum(len(group.replicas) for group in groups) == replicas


@pytest.mark.slow
def test_rollouts_are_limited_to_the_maximum() -> None:
    rollout = RolloutSpec(min_replicas=2, max_replicas=3)
    found = made(a_fleet(a100=4, l4=4), a_job(rollout=rollout))
    groups = found.groups_with(Task.ACTOR_GENERATION)
    assert 2 <= sum(len(group.replicas) for group in groups) <= 3


@pytest.mark.slow
def test_pool_gives_no_more_than_its_maximum() -> None:
    fleet = a_fleet(a100=16, l4=8)
    pools = {"A100-40GB": "cloud", "L4": "edge"}
    fleet = replace(
        fleet,
        machines=tuple(replace(each, pool=pools[each.gpu_kind]) for each in fleet.machines),
    )
    free = made(fleet, a_job(pools=(PoolSpec(name="cloud"), PoolSpec(name="edge"))))
    held = made(fleet, a_job(pools=(PoolSpec(name="cloud", max_gpus=5), PoolSpec(name="edge"))))
    assert Counter(free_kinds(free))["A100-40GB"] > 5
    assert Counter(free_kinds(held))["A100-40GB"] <= 5


def free_kinds(found: Plan) -> list[str]:
    return [group.gpu_kind for group in found.groups for _ in range(group.num_gpus)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "objective",
    [
        pytest.param(MinimiseCost(required_samples_per_second=20.0), id="rate"),
        pytest.param(MeetDeadline(seconds_left=100 * 256 / 20.0), id="deadline"),
    ],
)
def test_cheapest_plan_at_a_pace_reaches_it_for_less(objective: Objective) -> None:
    fastest = made(SMALL_FLEET, a_job("Qwen3-8B"))
    cheapest = made(SMALL_FLEET, a_job("Qwen3-8B", objective=objective))
    assert cheapest.prediction.samples_per_second >= 20.0
    assert cheapest.prediction.dollars_per_hour < fastest.prediction.dollars_per_hour / 2


@pytest.mark.slow
def test_plan_on_policy_is_slower_and_never_stale() -> None:
    ahead = made(SMALL_FLEET, a_job("Qwen3-8B"))
    on_policy = made(SMALL_FLEET, a_job("Qwen3-8B", mode=Mode.SYNC))
    expected = on_policy.prediction
    assert expected.mean_staleness == 0
    assert expected.step_seconds == pytest.approx(
        expected.generation_seconds + expected.training_seconds
    )
    assert expected.step_seconds > ahead.prediction.step_seconds


@pytest.mark.slow
def test_slow_link_keeps_weights_at_home() -> None:
    def rollout_regions(bytes_per_second: float) -> set[str]:
        link = Link(
            source="here", target="far", bytes_per_second=bytes_per_second, latency_seconds=0.05
        )
        fleet = both(a_fleet(a100=8, region="here"), a_fleet(a100=8, region="far"), links=(link,))
        found = made(fleet, a_job("Qwen3-8B", max_response_tokens=4096))
        (trainer,) = found.groups_with(Task.ACTOR_TRAINING)
        groups = found.groups_with(Task.ACTOR_GENERATION)
        return {"home" if group.region == trainer.region else "away" for group in groups}

    assert "away" in rollout_regions(12.5e9)
    assert rollout_regions(0.01e9) == {"home"}


@pytest.mark.slow
def test_plan_for_ten_thousand_gpus_keeps_limits_and_is_small() -> None:
    fleet = a_fleet(a100=3840, l40s=3840, l4=2560)
    job = a_job("Qwen3-8B", global_batch_size=65536)
    found = made(fleet, job)
    assert found.num_gpus > 1000
    check_against(fleet, job, found)
    assert len(json.dumps(as_object(found, job))) <= 256 * 1024


# ---- properties ---------------------------------------------------------------------------------

MACHINES = st.lists(
    st.builds(
        lambda kind, size, region: (kind, size, region),
        st.sampled_from(["A100-80GB", "L40S", "L4", "T4"]),
        st.integers(1, 9),
        st.sampled_from(["eu", "us"]),
    ),
    min_size=1,
    max_size=5,
)
JOBS = st.builds(
    a_job,
    st.sampled_from(["Qwen3-0.6B", "Qwen3-1.7B", "Qwen3-4B", "Qwen3-14B", "Qwen3-32B"]),
    mode=st.sampled_from(Mode),
    global_batch_size=st.sampled_from([8, 64, 1024]),
    max_response_tokens=st.sampled_from([64, 1024, 16384]),
    budget=st.none() | st.floats(0.5, 100),
    max_gpus=st.none() | st.integers(1, 40),
    rollout=st.sampled_from(
        [RolloutSpec(), RolloutSpec(min_replicas=2, max_replicas=4), RolloutSpec(replicas=3)]
    ),
    objective=st.none() | st.builds(MinimiseCost, st.floats(0.01, 50)),
)


def a_random_fleet(machines: list[tuple[str, int, str]]) -> ClusterSnapshot:
    number = count()
    return ClusterSnapshot(
        gpu_kinds=tuple(a_kind(kind) for kind in sorted({kind for kind, _, _ in machines})),
        machines=tuple(
            Machine(name=f"m{next(number)}", gpu_kind=kind, num_gpus=size, region=region)
            for kind, size, region in machines
        ),
    )


def check_against(fleet: ClusterSnapshot, job: JobSpec, found: Plan) -> None:
    """Check the limits of a plan, counted from machine names."""
    machines = {machine.name: machine for machine in fleet.machines}
    taken: Counter[str] = Counter()
    for group in found.groups:
        assert group.memory.total_bytes <= fleet.kind(group.gpu_kind).memory_bytes
        for replica in group.replicas:
            assert sum(share.num_gpus for share in replica.shares) == group.parallelism.num_gpus
            for share in replica.shares:
                machine = machines[share.machine]
                assert (machine.gpu_kind, machine.region) == (group.gpu_kind, group.region)
                assert share.num_gpus % group.parallelism.tensor == 0
                taken[share.machine] += share.num_gpus
        assert len({share.num_gpus for each in group.replicas for share in each.shares}) == 1
    assert all(taken[name] <= machines[name].num_gpus for name in taken)
    for task in (Task.ACTOR_TRAINING, Task.ACTOR_GENERATION):
        shares = [each.work_share for g in found.groups_with(task) for each in g.replicas]
        assert sum(shares) == pytest.approx(1)
    assert len({group.region for group in found.groups_with(Task.ACTOR_TRAINING)}) == 1

    price = sum(
        group.num_gpus * fleet.kind(group.gpu_kind).dollars_per_hour for group in found.groups
    )
    assert found.prediction.dollars_per_hour == pytest.approx(price)
    budget, most = job.resources.budget_dollars_per_hour, job.resources.max_gpus
    assert budget is None or price <= budget * (1 + 1e-6)
    assert most is None or found.num_gpus <= most
    replicas = sum(len(g.replicas) for g in found.groups_with(Task.ACTOR_GENERATION))
    wanted = job.rollout
    assert replicas >= (wanted.replicas or wanted.min_replicas)
    assert replicas <= (wanted.replicas or wanted.max_replicas or replicas)
    if isinstance(job.planning.objective, MinimiseCost):
        required = job.planning.objective.required_samples_per_second
        assert found.prediction.samples_per_second >= required * (1 - 1e-6)
    assert 0 <= found.prediction.mean_staleness <= job.algorithm.max_staleness


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(machines=MACHINES, job=JOBS)
def test_plans_of_many_fleets_keep_every_limit(
    machines: list[tuple[str, int, str]], job: JobSpec
) -> None:
    keeps_every_limit(machines, job)


def keeps_every_limit(machines: list[tuple[str, int, str]], job: JobSpec) -> None:
    fleet = a_random_fleet(machines)
    match plan(fleet, job):
        case Plan() as found:
            check_against(fleet, job, found)
        case Infeasible(reasons=reasons):
            assert all(reasons)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    machines=MACHINES,
    model=st.sampled_from(["Qwen3-0.6B", "Qwen3-4B"]),
    mode=st.sampled_from(Mode),
    budget=st.floats(2, 60),
    more=st.floats(0.1, 60),
)
def test_budget_increase_never_costs_throughput(
    *, machines: list[tuple[str, int, str]], model: str, mode: Mode, budget: float, more: float
) -> None:
    fleet = a_random_fleet(machines)
    poor = plan(fleet, a_job(model, mode=mode, budget=budget))
    rich = plan(fleet, a_job(model, mode=mode, budget=budget + more))
    if isinstance(poor, Plan):
        assert isinstance(rich, Plan)
        assert rich.gap is not None
        # Equal but for what the search itself admits to have left open.
        tolerance = 1 + rich.gap + 2e-3
        assert rich.prediction.samples_per_second * tolerance >= poor.prediction.samples_per_second


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(machines=MACHINES, job=JOBS, order=st.randoms(use_true_random=False))
def test_names_and_order_of_machines_change_nothing_but_names(
    machines: list[tuple[str, int, str]], job: JobSpec, order: random.Random
) -> None:
    fleet = a_random_fleet(machines)
    renamed = [replace(each, name=f"other-{each.name}") for each in fleet.machines]
    order.shuffle(renamed)
    assert shape(plan(fleet, job)) == shape(plan(replace(fleet, machines=tuple(renamed)), job))


def shape(outcome: Outcome) -> object:
    """A plan without the names of its machines."""
    if isinstance(outcome, Infeasible):
        return outcome
    groups = [
        (
            group.gpu_kind,
            group.region,
            group.parallelism,
            len(group.replicas),
            group.concurrency,
            group.memory,
            group.replicas[0].work_share,
        )
        for group in outcome.groups
    ]
    return (groups, outcome.prediction, outcome.rejected, outcome.gap)


def test_training_replicas_all_have_work() -> None:
    # Of four sequences an L4 beside an A100 would be given none.
    job = a_job("Qwen3-0.6B", global_batch_size=4, group_size=2, max_staleness=1)
    found = plan_job.plan(a_fleet(a100_80=2, l4=1), job, runnable_only=True)
    assert isinstance(found, Plan)
    assert all(share > 0 for share in training_split(found).shares)
