"""A job whose machine has no room for its pods: it moves, and comes to rest."""

import pytest

from hetrl_api.job.job import HetRLJobSpec
from hetrl_api.plan.to_core import from_plan
from hetrl_core.plan.plan import Infeasible, Plan
from hetrl_core.task import Role
from hetrl_operator.model.actions import StartPlanning
from hetrl_operator.model.conditions import condition
from hetrl_operator.model.observed import JobSeen
from hetrl_operator.model.planning import Answer, InsufficientFreeGpus
from hetrl_operator.model.reasons import (
    ConditionType,
    EventReason,
    Reason,
    ReplanOutcome,
    ReplanReason,
)
from hetrl_operator.planning.full_machines import (
    EXCLUDED_SECONDS,
    MOST_EXCLUDED_SECONDS,
    FullMachines,
)
from tests.controller.cluster_model import A100S, ClusterModel, a_cluster, a_running_job, uids
from tests.controller.queueing import Queue, a_queued_job
from tests.controller.values import a_job, a_plan, later

WORDS = "1 Insufficient nvidia.com/gpu"
MESSAGE = f"0/6 nodes are available: {WORDS}, 5 node(s) didn't satisfy plugin(s) [NodeAffinity]."


def first_with_room(full_machines: FullMachines) -> Answer:
    """Plan the trainer on the first machine that is not avoided."""
    free = full_machines.without_full("uid-1", A100S, {}).machines
    if free:
        return a_plan(machine=free[0].name)
    return InsufficientFreeGpus(
        reasons=("too few GPUs",), held_gpus=0, full=full_machines.left_out("uid-1", A100S)
    )


def a_crowd(*taken: str, job: JobSeen | None = None) -> ClusterModel:
    """A new job, and machines that are full already."""
    cluster = a_cluster(job or a_job(), a_plan())
    cluster.choose = first_with_room
    cluster.taken = dict.fromkeys(taken, MESSAGE)
    return cluster


def run(cluster: ClusterModel, *, seconds: float, most_rounds: int = 200) -> None:
    """Let time pass as the operator would see it, from each wake to the next."""
    ends = later(seconds=seconds) + (cluster.now - later())
    for _ in range(most_rounds):
        cluster.settle()
        cluster.make_ready()
        left = (ends - cluster.now).total_seconds()
        if left <= 0:
            return
        cluster.pass_time(seconds=min(cluster.wake_after_seconds or left, left))
    raise AssertionError(f"no rest in {most_rounds} wakes")


def trainer_node(cluster: ClusterModel) -> str:
    (node,) = {pod.node for pod in cluster.pods.values() if pod.role is Role.TRAINER}
    return node


def message_of(cluster: ClusterModel, type_: str) -> str:
    found = condition(cluster.job.status, type_)
    assert found
    return found.message


@pytest.mark.parametrize(
    ("taken", "node"),
    [
        pytest.param(("a100-0",), "a100-1", id="one"),
        pytest.param(("a100-0", "a100-1"), "a100-2", id="one-after-the-other"),
    ],
)
def test_new_job_runs_on_a_machine_that_has_room(taken: tuple[str, ...], node: str) -> None:
    cluster = a_crowd(*taken)

    run(cluster, seconds=120)

    assert cluster.job.status.phase == "Running"
    assert trainer_node(cluster) == node
    assert cluster.held == cluster.followed.plan, "GPUs on the full machine are given back"
    message = cluster.messages_of(EventReason.REPLANNED)
    assert len(message) == len(taken)
    assert message[0].startswith(f"a100-0 has no room for math-trainer-a100-80gb-0-0: {WORDS}: ")
    last = cluster.job.status.last_replan
    assert last
    assert (last.reason, last.outcome) == (ReplanReason.NODE_FULL, ReplanOutcome.ADOPTED)


def test_running_job_moves_when_others_take_its_machine() -> None:
    cluster = a_running_job()
    cluster.choose = first_with_room
    rollouts = uids(cluster, Role.ROLLOUT)

    cluster.take("a100-0", MESSAGE)
    run(cluster, seconds=60)

    assert cluster.job.status.phase == "Running"
    assert trainer_node(cluster) == "a100-1"
    assert uids(cluster, Role.ROLLOUT) == rollouts


def test_full_machine_keeps_the_trainer_that_is_bound_to_it() -> None:
    cluster = a_running_job(rollouts=("a100-0", "a100-0"))
    asked: list[StartPlanning] = []
    cluster.taken["a100-0"] = MESSAGE
    cluster.kill(min(uids(cluster, Role.ROLLOUT)))

    for _ in range(20):
        asked += [each for each in cluster.round() if isinstance(each, StartPlanning)]

    assert asked
    assert all(each.keeps_trainer for each in asked)


def test_job_without_another_machine_waits_until_there_is_room() -> None:
    cluster = a_crowd(*(each.name for each in A100S.machines))
    run(cluster, seconds=200)
    plans, events = len(cluster.plans), len(cluster.events)
    machine = cluster.followed.plan.groups[0].replicas[0].shares[0].machine

    said = message_of(cluster, ConditionType.DEGRADED)
    assert said.startswith(f"{machine} has no room for math-trainer-a100-80gb-0-0: {WORDS}; ")
    assert f"no room for a pod, in the scheduler's words: {WORDS}" in said
    assert cluster.settle() == 0
    assert (len(cluster.plans), len(cluster.events)) == (plans, events)

    cluster.vacate(machine)
    run(cluster, seconds=20)
    assert cluster.job.status.phase == "Running"
    assert trainer_node(cluster) == machine
    assert not cluster.messages_of(EventReason.FAILED)


def test_search_for_room_slows_down_and_deadlines_count_on() -> None:
    limit = HetRLJobSpec.model_fields["startup_deadline_seconds"].default
    cluster = a_crowd(*(each.name for each in A100S.machines))

    run(cluster, seconds=limit - 20)
    assert cluster.job.status.phase != "Failed"
    run(cluster, seconds=60)

    assert cluster.job.status.phase == "Failed"
    assert message_of(cluster, ConditionType.FAILED).count(WORDS)
    assert len(cluster.messages_of(EventReason.REPLANNED)) <= 8


def test_search_over_hours_makes_few_plans() -> None:
    job = a_job(startupDeadlineSeconds=86_400)
    cluster = a_crowd(*(each.name for each in A100S.machines), job=job)

    run(cluster, seconds=20_000, most_rounds=1000)

    most = 3 * (20_000 / MOST_EXCLUDED_SECONDS + 5)
    assert len(cluster.messages_of(EventReason.REPLANNED)) <= most


def test_unschedulable_deadline_counts_over_moves() -> None:
    job = a_job(unschedulableDeadlineSeconds=60)
    cluster = a_crowd(*(each.name for each in A100S.machines), job=job)

    run(cluster, seconds=75)

    found = condition(cluster.job.status, ConditionType.FAILED)
    assert found
    assert found.reason == Reason.UNSCHEDULABLE_DEADLINE_EXCEEDED


def test_end_of_an_exclusion_moves_nothing_back() -> None:
    cluster = a_crowd("a100-0")
    run(cluster, seconds=60)
    before, events = uids(cluster), len(cluster.events)
    del cluster.taken["a100-0"]

    run(cluster, seconds=3 * EXCLUDED_SECONDS)

    assert uids(cluster) == before
    assert len(cluster.events) == events


def test_restarted_operator_finds_the_machine_full_again() -> None:
    cluster = a_crowd("a100-0")
    cluster.settle()
    cluster.full_machines = FullMachines()

    run(cluster, seconds=60)

    assert trainer_node(cluster) == "a100-1"


def test_manual_job_keeps_its_plan_and_says_why_it_waits() -> None:
    job = a_job(planning={"mode": "Manual", "planRef": "mine"})
    cluster = a_crowd("a100-0", job=job)
    cluster.store_plan(
        {
            "apiVersion": "hetrl.dev/v1alpha1",
            "kind": "HetRLPlan",
            "metadata": {
                "name": "mine",
                "namespace": "default",
                "uid": "uid-mine",
                "creationTimestamp": later().isoformat(),
            },
            "spec": from_plan(a_plan()).model_dump(mode="json", by_alias=True, exclude_none=True),
        }
    )

    run(cluster, seconds=60)

    said = message_of(cluster, ConditionType.DEGRADED)
    assert said.startswith(f"a100-0 has no room for math-trainer-a100-80gb-0-0: {WORDS}; ")
    assert said.endswith("spec.planning.mode Manual keeps the plan")
    cluster.vacate("a100-0")
    run(cluster, seconds=10)
    assert cluster.job.status.phase == "Running"


@pytest.mark.parametrize(
    ("trainers", "node", "outcome"),
    [
        pytest.param(1, "a100-1", ReplanOutcome.ADOPTED, id="as-many-pods"),
        pytest.param(2, "", ReplanOutcome.NO_QUOTA, id="more-than-admitted"),
    ],
)
def test_queued_job_moves_within_what_its_queue_has_admitted(
    trainers: int, node: str, outcome: str
) -> None:
    queue = Queue()
    cluster = ClusterModel(job=a_queued_job(), answer=a_plan(), queue=queue)
    cluster.settle()
    cluster.taken = {"a100-0": MESSAGE}
    queue.admit()
    cluster.answer = a_plan(machine="a100-1", trainers=trainers)

    run(cluster, seconds=60)

    assert trainer_node(cluster) == node
    last = cluster.job.status.last_replan
    assert last
    assert (last.reason, last.outcome) == (ReplanReason.NODE_FULL, outcome)


def test_refused_search_for_room_is_reported_once() -> None:
    cluster = a_running_job()
    cluster.answer = Infeasible(reasons=("too few GPUs",))
    cluster.take("a100-0", MESSAGE)

    for _ in range(100):
        cluster.round()

    assert len(cluster.messages_of(EventReason.REPLAN_REJECTED)) == 1


def test_plan_names_the_machines_that_it_was_made_without() -> None:
    cluster = a_crowd("a100-0")
    cluster.left_out = "1 node left out (a100-0): no room"
    run(cluster, seconds=60)

    assert isinstance(cluster.followed.plan, Plan)
    assert "a100-0" in message_of(cluster, ConditionType.PLANNED)
