"""New numbers or machines of rollouts, beside trainers that stay in place."""

from collections import Counter
from dataclasses import replace

import pytest

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.plan import Plan, ReplicaGroup
from hetrl_core.plan.pod_sets import pod_sets
from hetrl_core.task import Role, Task
from hetrl_planner.plan_job import plan
from hetrl_planner.replan.resize import resize_rollouts
from tests.builders import a_fleet, a_job

pytestmark = pytest.mark.slow

FLEET = a_fleet(a100_80=2, l4=10, gpus_per_machine=1)
SMALL = replace(FLEET, machines=FLEET.machines[:6])
"""What there was when the job was planned: more came since."""


def asking_for(replicas: int | None, **changes: int) -> JobSpec:
    job = a_job()
    return replace(job, rollout=replace(job.rollout, replicas=replicas, **changes))


@pytest.fixture(scope="module")
def running() -> Plan:
    found = plan(SMALL, asking_for(3), runnable_only=True, evaluations=60)
    assert isinstance(found, Plan)
    return found


def trainers(found: Plan) -> list[ReplicaGroup]:
    return [each for each in found.groups if Task.ACTOR_TRAINING in each.tasks]


def rollouts(found: Plan) -> list[tuple[str, int, str]]:
    """Pod set, ordinal and machine of every rollout."""
    return [
        (pods.name, ordinal, machine)
        for pods in pod_sets(found)
        if pods.role is Role.ROLLOUT
        for ordinal, machine in enumerate(pods.machines)
    ]


def a_rollouts_machine(found: Plan) -> str:
    """The machine of the first rollout in its set, where no task trains."""
    homes = {
        share.machine
        for group in trainers(found)
        for replica in group.replicas
        for share in replica.shares
    }
    return next(machine for *_, machine in rollouts(found) if machine not in homes)


def takes_no_more_than_there_is(found: Plan, fleet: ClusterSnapshot) -> bool:
    taken = Counter[str]()
    for group in found.groups:
        for replica in group.replicas:
            for share in replica.shares:
                taken[share.machine] += share.num_gpus
    sizes = {each.name: each.num_gpus for each in fleet.machines}
    return all(number <= sizes.get(machine, 0) for machine, number in taken.items())


@pytest.mark.parametrize("number", [1, 2, 4, 6])
def test_trainers_and_the_rollouts_that_stay_keep_their_places(running: Plan, number: int) -> None:
    found = resize_rollouts(running, FLEET, asking_for(number))

    assert found
    assert trainers(found) == trainers(running)
    assert len(rollouts(found)) == number
    assert takes_no_more_than_there_is(found, FLEET)
    smaller, larger = sorted([rollouts(running), rollouts(found)], key=len)
    assert set(smaller) <= set(larger)


def test_expected_plan_follows_the_number(running: Plan) -> None:
    fewer = resize_rollouts(running, FLEET, asking_for(1))
    more = resize_rollouts(running, FLEET, asking_for(6))

    assert fewer
    assert more
    assert fewer.prediction.generation_seconds > more.prediction.generation_seconds
    assert fewer.prediction.dollars_per_hour < more.prediction.dollars_per_hour
    assert sum(
        replica.work_share
        for group in more.groups
        if Task.ACTOR_GENERATION in group.tasks
        for replica in group.replicas
    ) == pytest.approx(1)


def test_unrequested_number_stays(running: Plan) -> None:
    found = resize_rollouts(running, FLEET, asking_for(None, min_replicas=2))

    assert found
    assert rollouts(found) == rollouts(running)


def test_lost_machine_is_replaced_and_the_others_keep_their_names(running: Plan) -> None:
    lost = a_rollouts_machine(running)
    left = replace(FLEET, machines=tuple(each for each in FLEET.machines if each.name != lost))

    found = resize_rollouts(running, left, asking_for(3))

    assert found
    assert trainers(found) == trainers(running)
    assert len(rollouts(found)) == 3
    assert lost not in {machine for *_, machine in rollouts(found)}
    stayed = {each for each in rollouts(running) if each[2] != lost}
    assert stayed <= set(rollouts(found))


def test_shrinking_to_fewer_machines_closes_gaps_with_the_last_pods(running: Plan) -> None:
    current = rollouts(running)
    lost = a_rollouts_machine(running)
    left = replace(FLEET, machines=tuple(each for each in FLEET.machines if each.name != lost))
    fewer = len([each for each in current if each[2] != lost]) or 1

    found = resize_rollouts(running, left, asking_for(fewer))

    assert found
    for pods in pod_sets(found):
        assert lost not in pods.machines


def test_trainers_that_lost_their_machine_cannot_stay(running: Plan) -> None:
    home = trainers(running)[0].replicas[0].shares[0].machine
    left = replace(FLEET, machines=tuple(each for each in FLEET.machines if each.name != home))

    assert resize_rollouts(running, left, asking_for(3)) is None


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(asking_for(1000), id="more-than-there-are-gpus"),
        pytest.param(
            replace(asking_for(6), resources=replace(asking_for(6).resources, max_gpus=2)),
            id="more-than-the-job-may-take",
        ),
    ],
)
def test_infeasible_resize_gives_none(running: Plan, job: JobSpec) -> None:
    assert resize_rollouts(running, FLEET, job) is None


def test_search_that_is_stopped_gives_nothing_half_done(running: Plan) -> None:
    assert resize_rollouts(running, FLEET, asking_for(6), should_stop=lambda: True) is None
