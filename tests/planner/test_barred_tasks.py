"""Machines that some tasks may not use: pools for some tasks, spot machines, one trainer kind."""

from dataclasses import replace

import pytest

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec, PoolSpec, PoolTask, ResourcesSpec
from hetrl_core.plan.plan import Infeasible, Plan
from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.layout.fit.splits import EVERY_STAGE_COUNT, stage_counts
from hetrl_planner.phase1.space import space_of
from hetrl_planner.plan_job import plan
from hetrl_planner.problem.sites import barred_tasks, sites
from tests.builders import a_fleet, a_job

FLEET = a_fleet(a100=4, l4=4)


def with_spot(fleet: ClusterSnapshot, *kinds: str) -> ClusterSnapshot:
    machines = tuple(replace(each, is_spot=each.gpu_kind in kinds) for each in fleet.machines)
    return replace(fleet, machines=machines)


def in_pools(fleet: ClusterSnapshot) -> ClusterSnapshot:
    machines = tuple(replace(each, pool=each.gpu_kind.lower()[:2]) for each in fleet.machines)
    return replace(fleet, machines=machines)


def a_restricted_job(**fields: object) -> JobSpec:
    job = a_job()
    return replace(job, resources=replace(job.resources, **fields))  # type: ignore[arg-type]


def kinds_with(found: Plan, task: Task) -> set[str]:
    return {kind for group in found.groups_with(task) for kind in group.gpu_kinds}


@pytest.mark.parametrize(
    ("tasks", "barred"),
    [
        ((), set()),
        ((PoolTask.TRAIN,), {Task.ACTOR_GENERATION}),
        ((PoolTask.GENERATE,), set(Task) - {Task.ACTOR_GENERATION}),
        ((PoolTask.GENERATE, PoolTask.SCORE), set(TRAINING_TASKS)),
        (tuple(PoolTask), set()),
    ],
    ids=str,
)
def test_tasks_of_pool_bar_the_others(tasks: tuple[PoolTask, ...], barred: set[Task]) -> None:
    assert barred_tasks(PoolSpec(name="a", tasks=tasks)) == barred


@pytest.mark.parametrize("may_train", [False, True])
def test_spot_machines_are_sites_of_their_own(may_train: bool) -> None:
    one, other = a_fleet(a100=4).machines[0], a_fleet(a100=4).machines[0]
    fleet = replace(a_fleet(a100=4), machines=(one, replace(other, name="spot-0", is_spot=True)))
    found = {
        site.is_spot: site.barred for site in sites(fleet, ResourcesSpec(train_on_spot=may_train))
    }
    assert found == {False: frozenset(), True: frozenset() if may_train else TRAINING_TASKS}


@pytest.mark.parametrize(
    ("fields", "spot", "trainer"),
    [
        pytest.param({}, ("A100-40GB",), {"L4"}, id="spot"),
        pytest.param({"train_on_spot": True}, ("A100-40GB", "L4"), None, id="spot allowed"),
        pytest.param(
            {
                "pools": (
                    PoolSpec(name="a1", tasks=(PoolTask.GENERATE,)),
                    PoolSpec(name="l4", tasks=(PoolTask.TRAIN,)),
                )
            },
            (),
            {"L4"},
            id="pools",
        ),
    ],
)
@pytest.mark.parametrize("evaluations", [0, pytest.param(40, marks=pytest.mark.slow)])
def test_trainer_stays_where_training_is_allowed(
    fields: dict[str, object], spot: tuple[str, ...], trainer: set[str] | None, evaluations: int
) -> None:
    fleet, job = with_spot(in_pools(FLEET), *spot), a_restricted_job(**fields)
    found = plan(fleet, job, runnable_only=True, evaluations=evaluations)
    assert isinstance(found, Plan), found
    assert trainer is None or kinds_with(found, Task.ACTOR_TRAINING) == trainer
    if "pools" in fields:
        assert kinds_with(found, Task.ACTOR_GENERATION) == {"A100-40GB"}


def test_spot_machines_alone_give_no_plan_but_a_remedy() -> None:
    found = plan(with_spot(FLEET, "A100-40GB", "L4"), a_job(), runnable_only=True, evaluations=0)
    assert isinstance(found, Infeasible)
    assert any("spec.resources.trainOnSpot" in each for each in found.reasons)


def test_pools_without_training_give_no_plan_but_a_remedy() -> None:
    pools = tuple(PoolSpec(name=each, tasks=(PoolTask.GENERATE,)) for each in ("a1", "l4"))
    found = plan(in_pools(FLEET), a_restricted_job(pools=pools), evaluations=0)
    assert isinstance(found, Infeasible)
    assert any("spec.resources.pools" in each and "Train" in each for each in found.reasons)


def test_stage_counts_hold_every_small_one_and_each_largest_stage() -> None:
    counts = stage_counts(64)
    assert set(range(1, EVERY_STAGE_COUNT + 1)) <= set(counts)
    assert {-(-64 // count) for count in counts} == {-(-64 // stages) for stages in range(1, 65)}
    assert stage_counts(3) == (1, 2, 3)


def test_pipeline_of_five_stages_is_a_candidate() -> None:
    space = space_of(a_fleet(h100=16), a_job("Qwen3-32B"), runnable_only=True)
    assert 5 in {each.split.parallelism.num_stages for each in space.trainings}
