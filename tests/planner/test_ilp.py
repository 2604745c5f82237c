"""The set partition against an enumeration of its own, and the plans that it makes."""

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.algorithm import Mode
from hetrl_core.job.spec import JobSpec, Strategy
from hetrl_core.plan.plan import Plan
from hetrl_core.task import Task
from hetrl_planner.ilp.bundles import MOST_BUNDLES, Supply, bundles, supplies
from hetrl_planner.ilp.columns import Column, unbeaten
from hetrl_planner.ilp.find import find
from hetrl_planner.ilp.kinds import Kind, Kinds
from hetrl_planner.ilp.program import Program
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Misfit
from hetrl_planner.layout.layout import TaskLayout
from hetrl_planner.layout.objective import Objective, Score
from hetrl_planner.phase1.space import space_of
from hetrl_planner.plan_job import never, plan
from hetrl_planner.problem.goals import Cheapest, Fastest, Goal, Limits
from tests.builders import a_fleet, a_job, both

NO_LIMITS = Limits(budget_dollars_per_hour=None, max_gpus=None, min_replicas=1, max_replicas=None)
SUPPLIES = (
    Supply(machines=(0, 1), gpus_per_unit=8, most_units=2),
    Supply(machines=(2,), gpus_per_unit=8, most_units=1),
)
TASKS: Kind = (1, 2, 1, 0)

SMALL = both(a_fleet(a100=4, l40s=4, gpus_per_machine=4), a_fleet(l4=4, region="far"))


def a_column(
    kind: Kind, bundle: tuple[int, ...], *, seconds: float = 1.0, dollars: float = 1.0
) -> Column:
    counts = (kind[0], kind[1], kind[2] + kind[3])
    generation, scoring, training = (count * seconds for count in counts)
    return Column(
        kind=kind,
        bundle=bundle,
        regions=("here",),
        phase_seconds=(generation, scoring, training),
        dollars_per_hour=dollars * sum(bundle),
        num_gpus=8 * sum(bundle),
    )


def a_program(
    columns: Sequence[Column],
    *,
    goal: Goal | None = None,
    limits: Limits = NO_LIMITS,
    steps_ahead: float = 0.0,
) -> Program:
    return Program(
        columns,
        SUPPLIES,
        TASKS,
        goal=goal or Fastest(),
        limits=limits,
        lag_seconds=lambda _sources, _target: 0.0,
        steps_ahead=steps_ahead,
    )


def partitions(columns: Sequence[Column]) -> Iterator[tuple[Column, ...]]:
    """Yield every choice that does each task once with the machines there are."""
    for size in range(1, sum(TASKS) + 1):
        for chosen in combinations_with_replacement(columns, size):
            done = [sum(column.kind[number] for column in chosen) for number in range(len(TASKS))]
            used = [sum(column.bundle[number] for column in chosen) for number in (0, 1)]
            if done == list(TASKS) and used[0] <= 2 and used[1] <= 1:
                yield chosen


def seconds_of(chosen: Sequence[Column]) -> float:
    """Return a synchronous step's length."""
    return sum(max(column.phase_seconds[phase] for column in chosen) for phase in range(3))


KINDS = st.sampled_from(
    [
        (1, 0, 0, 0),
        (0, 1, 0, 0),
        (0, 2, 0, 0),
        (0, 0, 1, 0),
        (1, 0, 1, 0),
        (0, 2, 1, 0),
        (1, 1, 0, 0),
        (0, 1, 1, 0),
        (1, 2, 1, 0),
    ]
)
BUNDLES = st.sampled_from([(1, 0), (0, 1), (1, 1), (2, 0), (2, 1)])
COLUMNS = st.lists(
    st.builds(
        a_column,
        KINDS,
        BUNDLES,
        seconds=st.floats(1.0, 9.0),
        dollars=st.floats(0.5, 3.0),
    ),
    min_size=1,
    max_size=14,
    unique_by=lambda column: (column.kind, column.bundle),
)


@settings(max_examples=60, deadline=None)
@given(columns=COLUMNS)
@pytest.mark.slow
def test_chosen_partition_is_the_quickest(columns: list[Column]) -> None:
    every = [seconds_of(each) for each in partitions(columns)]
    chosen = a_program(columns).choose(should_stop=never, seed=1)
    if not every:
        assert chosen is None
        return
    assert chosen is not None
    assert seconds_of(chosen.columns) <= min(every) * 1.006
    assert chosen.bound <= min(every) * 1.0001


@settings(max_examples=60, deadline=None)
@given(columns=COLUMNS)
@pytest.mark.slow
def test_columns_that_others_beat_are_not_missed(columns: list[Column]) -> None:
    def best(among: Sequence[Column]) -> float:
        return min((seconds_of(each) for each in partitions(among)), default=-1.0)

    assert best(unbeaten(columns)) == pytest.approx(best(columns))


@settings(max_examples=40, deadline=None)
@given(columns=COLUMNS, budget=st.floats(1.0, 8.0))
def test_budget_is_kept(columns: list[Column], budget: float) -> None:
    limits = Limits(
        budget_dollars_per_hour=budget, max_gpus=None, min_replicas=1, max_replicas=None
    )
    chosen = a_program(columns, limits=limits).choose(should_stop=never, seed=1)
    within = [
        each
        for each in partitions(columns)
        if sum(column.dollars_per_hour for column in each) <= budget
    ]
    assert (chosen is not None) == bool(within)
    if chosen:
        assert sum(column.dollars_per_hour for column in chosen.columns) <= budget + 1e-6


@settings(max_examples=40, deadline=None)
@given(columns=COLUMNS, pace=st.floats(5.0, 40.0))
def test_cheapest_within_a_pace_is_chosen(columns: list[Column], pace: float) -> None:
    chosen = a_program(columns, goal=Cheapest(pace)).choose(should_stop=never, seed=1)
    prices = [
        sum(column.dollars_per_hour + 0.01 * column.num_gpus for column in each)
        for each in partitions(columns)
        if seconds_of(each) <= pace
    ]
    assert (chosen is not None) == bool(prices)
    if chosen:
        found = sum(column.dollars_per_hour + 0.01 * column.num_gpus for column in chosen.columns)
        assert found <= min(prices) * 1.006


def test_forbidden_choice_is_not_chosen_again() -> None:
    columns = [
        a_column((1, 2, 1, 0), (2, 1), seconds=3),
        a_column((1, 2, 1, 0), (2, 0), seconds=4),
        a_column((1, 2, 1, 0), (1, 0), seconds=5),
    ]
    program, found = a_program(columns), []
    while chosen := program.choose(should_stop=never, seed=1):
        found += chosen.columns
        program.forbid(chosen.columns)
    assert found == columns


def test_wait_for_scores_elsewhere_counts_where_responses_age() -> None:
    apart = [a_column((1, 0, 1, 0), (2, 0), seconds=6), a_column((0, 2, 0, 0), (0, 1), seconds=5)]
    chosen = a_program(apart, steps_ahead=1.0).choose(should_stop=never, seed=1)
    assert chosen is not None
    assert chosen.bound == pytest.approx(12, rel=1e-3)


@pytest.mark.parametrize(
    ("fleet", "units"),
    [
        pytest.param(a_fleet(a100=4, l40s=4, gpus_per_machine=4), [4, 4], id="GPUs of a machine"),
        pytest.param(a_fleet(a100=24, l40s=8), [3, 1], id="machines of a site"),
    ],
)
def test_small_fleets_are_counted_by_gpus_and_large_by_machines(
    fleet: ClusterSnapshot, units: list[int]
) -> None:
    devices = devices_of(fleet)
    assert [supply.most_units for supply in supplies(devices)] == units


@pytest.mark.slow
def test_machines_are_taken_several_at_a_time() -> None:
    devices = devices_of(a_fleet(a100=320, l40s=320, l4=320))
    here = supplies(devices)
    assert sum(map(len, bundles(here, devices))) <= MOST_BUNDLES
    assert all(supply.choices[-1] == supply.most_units for supply in here)


def devices_of(fleet: ClusterSnapshot) -> Devices:
    space = space_of(fleet, a_job("Qwen3-1.7B"), runnable_only=False)
    return Devices(snapshot=space.snapshot, sites=space.sites)


EVERYTHING = tuple(Task)


def test_groups_that_run_are_counted_as_the_list_has_them() -> None:
    kinds = Kinds(EVERYTHING, runnable_only=True)
    any_of_each = product(*[(0, 1)] * 5)
    assert set(kinds.each) == {
        (generates, critic + reference, trains, critic, reward)
        for generates, reference, trains, critic, reward in any_of_each
    } - {(0, 0, 0, 0, 0)}
    assert not any(list(kinds.parts(kind)) for kind in kinds.each)


@pytest.mark.parametrize(
    ("kinds", "named"),
    [
        pytest.param(
            [(1, 0, 0, 0, 0), (0, 1, 0, 0, 1), (0, 1, 1, 1, 0)],
            [
                (Task.ACTOR_GENERATION,),
                (Task.REFERENCE_INFERENCE, Task.REWARD_INFERENCE),
                (Task.CRITIC_INFERENCE, Task.ACTOR_TRAINING, Task.CRITIC_TRAINING),
            ],
            id="a trainer keeps its critic",
        ),
        pytest.param(
            [(0, 1, 0, 0, 0)], [(Task.REFERENCE_INFERENCE,)], id="what scores alone is no critic"
        ),
        pytest.param(
            [(1, 0, 0, 0, 0), (0, 1, 1, 0, 0), (0, 1, 0, 1, 0), (0, 0, 0, 0, 1)],
            [
                (Task.ACTOR_GENERATION,),
                (Task.REFERENCE_INFERENCE, Task.ACTOR_TRAINING),
                (Task.CRITIC_INFERENCE, Task.CRITIC_TRAINING),
                (Task.REWARD_INFERENCE,),
            ],
            id="a policy keeps its reference, and a critic is asked where it is trained",
        ),
        pytest.param([(0, 1, 0, 0, 0), (0, 2, 1, 1, 0)], None, id="a reference in two places"),
    ],
)
def test_groups_that_run_are_named_as_the_list_has_them(
    kinds: list[Kind], named: list[tuple[Task, ...]] | None
) -> None:
    assert Kinds(EVERYTHING, runnable_only=True).named(kinds) == named


@pytest.mark.slow
@pytest.mark.parametrize("mode", [Mode.SYNC, Mode.ASYNC])
def test_ilp_plans_within_its_budget_and_repeats_itself(mode: Mode) -> None:
    free = made(a_job("Qwen3-1.7B", strategy=Strategy.ILP, mode=mode))
    tight = a_job(
        "Qwen3-1.7B",
        strategy=Strategy.ILP,
        mode=mode,
        budget=0.7 * free.prediction.dollars_per_hour,
    )
    found = made(tight)
    assert found.prediction.dollars_per_hour <= 0.7 * free.prediction.dollars_per_hour
    assert found.prediction.step_seconds >= free.prediction.step_seconds
    assert made(tight) == found


@pytest.mark.slow
def test_auto_is_never_worse_than_the_ilp() -> None:
    alone = made(a_job("Qwen3-1.7B", strategy=Strategy.ILP))
    together = made(a_job("Qwen3-1.7B", strategy=Strategy.AUTO))
    assert together.prediction.step_seconds <= alone.prediction.step_seconds


class Counting(Evaluator):
    """An evaluator that counts the groups that it prices."""

    groups = 0

    def alone_seconds(self, group: Sequence[TaskLayout]) -> dict[Task, float] | Misfit:
        self.groups += 1
        return super().alone_seconds(group)


@pytest.mark.slow
def test_start_in_one_region_needs_fewer_columns_for_the_plan() -> None:
    job = a_job("Qwen3-1.7B", mode=Mode.SYNC)
    space = space_of(a_fleet(a100=16, l40s=16, l4=8), job, runnable_only=False)
    devices = Devices(snapshot=space.snapshot, sites=space.sites)
    objective = Objective(goal=Fastest(), limits=space.limits, devices=devices)

    def found(most_regions: int | None) -> tuple[Score, int]:
        evaluator = Counting(space.work, devices)
        ended = find(
            evaluator,
            objective,
            should_stop=never,
            seed=1,
            most_regions=most_regions,
            most_choices=3,
        )
        assert ended
        return ended.score, evaluator.groups

    whole, start = found(None), found(1)

    assert start[0] == whole[0]
    assert start[1] < whole[1]


def made(job: JobSpec) -> Plan:
    found = plan(SMALL, job)
    assert isinstance(found, Plan)
    return found
