"""Better rollouts for a running job on a changed fleet, and the prediction of its plan there."""

from dataclasses import replace

import pytest

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec, MinimiseCost, Objective
from hetrl_core.plan.plan import Plan, ReplicaGroup
from hetrl_core.plan.pod_sets import pod_sets
from hetrl_core.task import Role, Task
from hetrl_planner.plan_job import plan
from hetrl_planner.replan.alignment import aligned
from hetrl_planner.replan.improve import improve_rollouts, predict
from tests.builders import a_fleet, a_job

pytestmark = pytest.mark.slow

SMALL = a_fleet(a100_80=2, l4=2, gpus_per_machine=1)
LARGE = a_fleet(a100_80=2, l4=10, gpus_per_machine=1)


def talkative(objective: Objective | None = None) -> JobSpec:
    """A job whose responses are long, so that rollouts are what it lacks."""
    return a_job(max_response_tokens=8192, objective=objective)


@pytest.fixture(scope="module")
def running() -> Plan:
    found = plan(SMALL, talkative(), runnable_only=True, evaluations=60)
    assert isinstance(found, Plan)
    return found


def trainers(found: Plan) -> list[ReplicaGroup]:
    return [each for each in found.groups if Task.ACTOR_TRAINING in each.tasks]


def places(found: Plan) -> set[tuple[str, int, str]]:
    return {
        (pods.name, ordinal, machine)
        for pods in pod_sets(found)
        if pods.role is Role.ROLLOUT
        for ordinal, machine in enumerate(pods.machines)
    }


def at_price(fleet: ClusterSnapshot, kind: str, dollars: float) -> ClusterSnapshot:
    kinds = (
        replace(each, dollars_per_hour=dollars) if each.name == kind else each
        for each in fleet.gpu_kinds
    )
    return replace(fleet, gpu_kinds=tuple(kinds))


def test_joining_machines_take_rollouts_beside_the_staying_trainers(
    running: Plan,
) -> None:
    found = improve_rollouts(running, LARGE, talkative())

    assert found
    assert trainers(found) == trainers(running)
    assert places(found) > places(running)
    assert found.prediction.samples_per_second > running.prediction.samples_per_second


def test_fleet_as_it_was_offers_nothing_worse(running: Plan) -> None:
    found = improve_rollouts(running, SMALL, talkative())

    assert found
    assert found.prediction.samples_per_second >= running.prediction.samples_per_second


def test_number_that_the_user_set_stays() -> None:
    job = talkative()
    job = replace(job, rollout=replace(job.rollout, replicas=2))
    found = plan(SMALL, job, runnable_only=True, evaluations=60)
    assert isinstance(found, Plan)

    better = improve_rollouts(found, LARGE, job)

    assert better
    assert len(places(better)) == 2


def test_search_that_is_stopped_gives_what_it_has(running: Plan) -> None:
    found = improve_rollouts(running, LARGE, talkative(), should_stop=lambda: True)

    assert found
    assert places(found) == places(running)


def test_trainers_whose_machine_is_gone_cannot_stay(running: Plan) -> None:
    home = trainers(running)[0].replicas[0].shares[0].machine
    left = replace(LARGE, machines=tuple(each for each in LARGE.machines if each.name != home))

    assert improve_rollouts(running, left, talkative()) is None
    assert predict(running, left, talkative()) is None


def test_plan_is_worth_what_prices_are_now(running: Plan) -> None:
    before = predict(running, SMALL, talkative())
    dearer = predict(running, at_price(SMALL, "A100-80GB", 100.0), talkative())

    assert before
    assert dearer
    assert before.samples_per_second == pytest.approx(running.prediction.samples_per_second)
    assert dearer.samples_per_second == before.samples_per_second
    assert dearer.dollars_per_hour > before.dollars_per_hour


def cheap(rate: float) -> JobSpec:
    return talkative(MinimiseCost(required_samples_per_second=rate))


def test_cheaper_pool_takes_the_rollouts_over(running: Plan) -> None:
    job = cheap(running.prediction.samples_per_second / 2)
    dear = plan(at_price(LARGE, "L4", 50.0), job, runnable_only=True, evaluations=60)
    assert isinstance(dear, Plan)

    found = improve_rollouts(dear, at_price(LARGE, "L4", 0.01), job)

    assert found
    assert found.prediction.dollars_per_hour < dear.prediction.dollars_per_hour
    assert trainers(found) == trainers(dear)


def test_equal_machines_are_exchanged_for_those_that_have_the_pods(running: Plan) -> None:
    names = [each.name for each in SMALL.machines if each.gpu_kind == "A100-80GB"]
    exchanged = dict(zip(names, reversed(names), strict=True))

    def other(group: ReplicaGroup) -> ReplicaGroup:
        replicas = (
            replace(
                replica,
                shares=tuple(
                    replace(share, machine=exchanged.get(share.machine, share.machine))
                    for share in replica.shares
                ),
            )
            for replica in group.replicas
        )
        return replace(group, replicas=tuple(replicas))

    scrambled = replace(running, groups=tuple(other(each) for each in running.groups))

    assert aligned(scrambled, running, SMALL) == running
