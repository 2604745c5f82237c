"""A job in a queue: when it may run, and the conditions of its Workload."""

from dataclasses import replace
from typing import Any

import pytest

from hetrl_core.plan.plan import Plan
from hetrl_core.task import Role
from hetrl_operator.decide.kueue.queueing import exceeds
from hetrl_operator.model.actions import Action, ReserveGpus, StartPlanning, SubmitWorkload
from hetrl_operator.model.conditions import condition
from hetrl_operator.model.kueue.admission import WorkloadSeen
from hetrl_operator.model.reasons import ConditionType, EventReason, Reason
from tests.controller.cluster_model import ClusterModel, reason_of
from tests.controller.queueing import SERVED, Queue, a_queued_job
from tests.controller.values import a_job, a_plan, a_report, an_observation, parsed_of

QUOTA = ConditionType.QUOTA_RESERVED


def a_waiting_job(plan: Plan | None = None, **spec: Any) -> tuple[ClusterModel, Queue]:
    """A cluster whose job is planned and waits in its queue."""
    queue = Queue()
    cluster = ClusterModel(job=a_queued_job(**spec), answer=plan or a_plan(), queue=queue)
    cluster.settle()
    return cluster, queue


def an_admitted_job(**spec: Any) -> tuple[ClusterModel, Queue]:
    """A cluster whose job was admitted and runs."""
    cluster, queue = a_waiting_job(**spec)
    queue.admit()
    cluster.settle()
    cluster.make_ready()
    cluster.settle()
    assert cluster.job.status.phase == "Running"
    return cluster, queue


def the_workload(cluster: ClusterModel) -> dict[str, Any]:
    (found,) = (each for each in cluster.written if isinstance(each, SubmitWorkload))
    return dict(found.manifest)


def message_of(cluster: ClusterModel, type_: str) -> str:
    """The message of a condition."""
    found = condition(cluster.job.status, type_)
    assert found, f"no condition {type_}"
    return found.message


def reserved(actions: list[Action]) -> list[ReserveGpus]:
    return [each for each in actions if isinstance(each, ReserveGpus)]


def test_queued_job_is_planned_without_a_reservation() -> None:
    cluster, _ = a_waiting_job()

    assert cluster.job.status.phase == "Queued"
    assert reason_of(cluster, QUOTA) == Reason.WAITING_FOR_QUOTA
    assert not any(isinstance(each, ReserveGpus) for each in cluster.written)
    assert [each.unreserved for each in cluster.written if isinstance(each, StartPlanning)] == [
        True
    ]
    assert not cluster.children
    assert not cluster.pods
    assert cluster.messages_of(EventReason.QUEUED)


def test_workload_asks_for_each_role_on_each_gpu_kind() -> None:
    cluster, _ = a_waiting_job(a_plan(trainers=2, rollouts=("l4-0", "l4-0", "l4-1")))

    spec = the_workload(cluster)["spec"]
    assert spec["queueName"] == "team"
    asked = {
        each["name"]: (
            each["count"],
            each["template"]["spec"]["containers"][0]["resources"]["requests"].get(
                "nvidia.com/gpu"
            ),
        )
        for each in spec["podSets"]
    }
    assert asked == {
        "coordinator": (1, None),
        "rollout-l4": (3, "1"),
        "trainer-a100-80gb": (2, "1"),
    }


def test_admitted_job_reserves_runs_and_reports_ready_pods() -> None:
    cluster, queue = an_admitted_job()

    found = condition(cluster.job.status, QUOTA)
    assert found
    assert (found.status, found.reason) == ("True", Reason.ADMITTED)
    assert any(isinstance(each, ReserveGpus) for each in cluster.written)
    assert queue.workload
    ready = queue.workload.condition("PodsReady")
    assert ready
    assert (ready.holds, ready.reason) == (True, "Started")


def test_preempted_job_stops_trainers_first_and_frees_quota_last() -> None:
    cluster, queue = an_admitted_job()
    queue.evict()

    cluster.round()

    assert cluster.job.status.phase == "Suspending"
    assert reason_of(cluster, QUOTA) == Reason.PREEMPTED
    assert not [each for each in cluster.pods.values() if each.role is Role.TRAINER]
    assert cluster.pods, "the last version that trainers commit needs its coordinator"
    assert queue.workload
    assert queue.workload.holds_quota
    cluster.settle()
    assert not cluster.pods
    assert cluster.planning
    assert not cluster.planning.is_reserved
    assert cluster.job.status.phase == "Queued"
    assert not queue.workload.holds_quota
    requeued = queue.workload.condition("Requeued")
    assert requeued
    assert requeued.holds, "Kueue may admit it again at once"
    assert queue.num_made == 1, "it keeps its place in the queue"


def test_eviction_reason_is_reported_until_the_next_admission() -> None:
    cluster, queue = an_admitted_job()
    queue.evict()
    cluster.settle()
    assert message_of(cluster, QUOTA) == "for a job of more weight"

    queue.say("QuotaReserved", holds=False, reason="Pending", message="no flavor fits")
    cluster.settle()

    assert cluster.job.status.phase == "Queued"
    assert reason_of(cluster, QUOTA) == Reason.PREEMPTED
    assert message_of(cluster, QUOTA) == "for a job of more weight; waits again: no flavor fits"
    queue.admit()
    cluster.settle()
    assert reason_of(cluster, QUOTA) == Reason.ADMITTED


def test_readmitted_job_resumes_from_its_checkpoint() -> None:
    cluster, queue = an_admitted_job()
    queue.evict()
    cluster.settle()

    queue.admit()
    cluster.settle()
    cluster.make_ready()
    cluster.settle()

    assert cluster.job.status.phase == "Running"
    assert reason_of(cluster, ConditionType.SUSPENDED) == Reason.RESUMED
    assert cluster.job.status.restarts == 0


@pytest.mark.parametrize(
    ("reason", "at_once", "said"),
    [
        ("Preempted", True, Reason.PREEMPTED),
        ("NodeFailures", True, Reason.EVICTED),
        ("PodsReadyTimeout", False, Reason.EVICTED),
        ("ClusterQueueStopped", False, Reason.EVICTED),
    ],
)
def test_kueue_decides_when_an_evicted_job_is_a_candidate_again(
    reason: str, *, at_once: bool, said: str
) -> None:
    cluster, queue = an_admitted_job()
    queue.evict(reason, "because")

    cluster.round()

    assert reason_of(cluster, QUOTA) == said
    cluster.settle()
    assert queue.workload
    requeued = queue.workload.condition("Requeued")
    assert requeued
    assert (requeued.holds, requeued.reason) == (at_once, reason)


def test_deactivated_workload_is_left_for_the_user_to_activate() -> None:
    cluster, queue = an_admitted_job()
    queue.deactivate()

    cluster.settle()

    assert not cluster.pods
    assert reason_of(cluster, QUOTA) == Reason.DEACTIVATED
    assert queue.workload
    assert not queue.workload.holds_quota
    assert queue.num_made == 1


def test_trainers_that_fail_during_eviction_do_not_fail_the_job() -> None:
    cluster, queue = an_admitted_job()
    cluster.sets_do_nothing = True
    queue.evict()
    cluster.round()
    cluster.crash("math-trainer-a100-80gb-0-0", 3)

    cluster.round()

    assert cluster.job.status.phase == "Suspending"


def test_suspended_job_gives_its_workload_back_and_queues_again() -> None:
    cluster, queue = an_admitted_job()

    cluster.change(suspend=True)
    cluster.job = _named(cluster)
    cluster.settle()

    assert queue.workload is None
    assert reason_of(cluster, QUOTA) == Reason.QUOTA_RETURNED
    cluster.change(suspend=False)
    cluster.job = _named(cluster)
    cluster.settle()
    assert queue.num_made == 2
    assert cluster.job.status.phase == "Queued"


def test_job_that_ends_finishes_its_workload() -> None:
    cluster, queue = an_admitted_job()
    cluster.progress = a_report(10, finished=True, outcome="Succeeded")

    cluster.settle()

    assert queue.workload
    assert queue.workload.holds("Finished")
    assert not queue.workload.holds_quota


def test_deleted_job_releases_its_workload_before_it_is_gone() -> None:
    cluster, queue = an_admitted_job()
    cluster.delete_job()

    while not cluster.is_gone:
        assert cluster.round()

    assert queue.workload is None


def test_deleted_job_gives_up_its_place_in_the_queue() -> None:
    cluster, queue = a_waiting_job()
    cluster.delete_job()
    assert not cluster.is_gone, "the queue would admit a job that is not there"

    while not cluster.is_gone:
        assert cluster.round()

    assert queue.workload is None


def test_rollouts_beyond_the_admission_wait_for_another() -> None:
    cluster, _ = an_admitted_job()
    cluster.answer = a_plan(rollouts=("l4-0", "l4-0", "l4-1"))

    cluster.change(rollout={"replicas": 3})
    cluster.job = _named(cluster)
    cluster.settle()

    last = cluster.job.status.last_replan
    assert last
    assert last.outcome == "NoQuota"
    assert "3 rollout-l4 pods instead of 2" in last.message
    assert len(cluster.pods) == 4


def test_rollouts_below_the_admission_need_no_other() -> None:
    cluster, queue = an_admitted_job()
    cluster.answer = a_plan(rollouts=("l4-0",))

    cluster.change(rollout={"replicas": 1})
    cluster.job = _named(cluster)
    cluster.settle()

    assert len(cluster.pods) == 3
    assert queue.num_made == 1


def test_job_that_is_planned_again_while_it_waits_requests_again() -> None:
    cluster, queue = a_waiting_job()
    cluster.answer = a_plan(rollouts=("l4-0", "l4-0", "l4-1"))

    cluster.change(rollout={"replicas": 3})
    cluster.job = _named(cluster)
    cluster.settle()

    assert queue.workload
    assert sorted(queue.workload.counts.values()) == [1, 1, 3]


def test_job_that_loses_its_label_runs_on_without_a_workload() -> None:
    cluster, queue = an_admitted_job()
    cluster.job = replace(cluster.job, queue="")

    cluster.settle()

    assert queue.workload is None
    assert cluster.job.status.phase == "Running"
    assert condition(cluster.job.status, QUOTA) is None


def test_queue_label_without_kueue_is_ignored_with_a_warning() -> None:
    cluster = ClusterModel(job=a_queued_job(), answer=a_plan())

    cluster.settle()

    found = condition(cluster.job.status, QUOTA)
    assert found
    assert (found.status, found.reason) == ("False", Reason.QUEUE_IGNORED)
    assert "kueue.x-k8s.io/queue-name=team is ignored" in found.message
    assert cluster.messages_of(EventReason.QUEUE_IGNORED)
    assert cluster.job.status.phase == "Deploying"


def test_job_without_the_label_takes_no_notice_of_kueue() -> None:
    cluster = ClusterModel(job=a_job(), answer=a_plan(), queue=Queue())

    cluster.settle()

    assert condition(cluster.job.status, QUOTA) is None
    assert cluster.job.status.phase == "Deploying"


def test_plan_with_too_many_pod_kinds_is_reported_with_limit() -> None:
    queue = Queue()
    queue.labels = {f"l4-{number}": {"zone": str(number)} for number in range(8)}
    plan = a_plan(rollouts=tuple(f"l4-{number}" for number in range(8)))
    cluster = ClusterModel(job=a_queued_job(), answer=plan, queue=queue)

    cluster.settle()

    found = condition(cluster.job.status, QUOTA)
    assert found
    assert found.reason == Reason.WAITING_FOR_QUOTA
    assert "10 kinds of pods" in found.message
    assert "at most 8" in found.message
    assert not cluster.children


@pytest.mark.parametrize("step", range(1, 12))
def test_operator_death_between_writes_still_completes_eviction(
    step: int,
) -> None:
    cluster, queue = an_admitted_job()
    queue.evict()

    for _ in range(step):
        cluster.round_without_actions()
        cluster.round()

    cluster.settle()
    assert queue.workload
    assert not queue.workload.holds_quota
    assert not cluster.pods


def test_job_of_another_controller_is_left_alone() -> None:
    job = a_job(managedBy="kueue.x-k8s.io/multikueue")
    cluster = ClusterModel(job=job, answer=a_plan())

    assert cluster.settle() == 0
    assert not cluster.job.status.conditions


def _named(cluster: ClusterModel) -> Any:
    """Keep the label that ``change`` does not know of."""
    return replace(cluster.job, queue="team")


def test_plan_of_a_job_that_left_its_queue_exceeds_nothing() -> None:
    small = WorkloadSeen(
        name="math", uid="w", owner_uid="uid-1", resource_version="1", queue="team", counts={}
    )
    queueing = replace(SERVED, workload=small)
    queued = an_observation(a_queued_job(), queueing=queueing)
    left = an_observation(a_job(), queueing=queueing)

    assert "trainer" in exceeds(queued, parsed_of(queued.job), a_plan())
    assert exceeds(left, parsed_of(left.job), a_plan()) == ""
