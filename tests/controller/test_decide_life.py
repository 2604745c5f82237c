"""A job's life on the model of a cluster: start, suspend, resume, finish, fail, restart."""

from dataclasses import replace

import pytest

from hetrl_core.plan.plan import Infeasible
from hetrl_core.task import Role
from hetrl_operator.model.actions import Apply, DeleteJob, RemoveSchedulingGate, ReserveGpus
from hetrl_operator.model.conditions import condition
from hetrl_operator.model.planning import InsufficientFreeGpus, PlannerError
from hetrl_operator.model.reasons import ConditionType, Reason
from tests.controller.cluster_model import ClusterModel, a_cluster, a_running_job, reason_of
from tests.controller.values import a_job, a_plan, a_report


def test_job_is_planned_deployed_and_runs() -> None:
    cluster = a_cluster(a_job(), a_plan())

    cluster.settle()

    assert cluster.job.status.phase == "Deploying"
    assert len(cluster.pods) == 4
    assert not any(pod.is_gated for pod in cluster.pods.values())
    assert cluster.certificates_issued == 1
    cluster.make_ready()
    cluster.settle()
    assert cluster.job.status.phase == "Running"
    assert cluster.job.status.plan
    assert cluster.job.status.plan.dollars_per_hour == 5.5


def test_gpus_are_reserved_before_the_plan_is_written() -> None:
    cluster = a_cluster(a_job(), a_plan())

    cluster.settle()

    kinds = [
        "reserve" if isinstance(each, ReserveGpus) else each.manifest["kind"]
        for each in cluster.written
        if isinstance(each, ReserveGpus | Apply)
    ]
    assert kinds[:2] == ["reserve", "HetRLPlan"]


def test_scheduling_gates_stay_until_every_pod_exists() -> None:
    cluster = a_cluster(a_job(), a_plan())
    while not cluster.pods:
        cluster.round()
    missing = "math-rollout-l4-0-1"
    pod = cluster.pods.pop(missing)

    actions = cluster.round()

    assert not [each for each in actions if isinstance(each, RemoveSchedulingGate)]
    cluster.pods[missing] = pod
    num_ungated = [each.pod for each in cluster.round() if isinstance(each, RemoveSchedulingGate)]
    assert sorted(num_ungated) == sorted(cluster.pods)


def test_plan_only_job_reserves_and_creates_nothing_but_its_plan() -> None:
    cluster = a_cluster(a_job(planning={"mode": "PlanOnly"}), a_plan())

    cluster.settle()

    assert cluster.job.status.phase == "Planned"
    assert cluster.plans
    assert not cluster.children
    assert cluster.planning
    assert not cluster.planning.is_reserved


@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        pytest.param(
            Infeasible(reasons=("no GPU has 80 GiB", "the budget is $1/h")),
            Reason.INFEASIBLE,
            "no GPU has 80 GiB; the budget is $1/h",
            id="infeasible",
        ),
        pytest.param(
            InsufficientFreeGpus(reasons=("no GPU is free",), held_gpus=8),
            Reason.INSUFFICIENT_FREE_GPUS,
            "other jobs hold 8 GPUs",
            id="occupied",
        ),
        pytest.param(
            PlannerError(reason=Reason.SOLVER_TIMEOUT, message="stopped after 80 s"),
            Reason.SOLVER_TIMEOUT,
            "stopped after 80 s",
            id="timeout",
        ),
    ],
)
def test_job_without_a_plan_says_why_and_creates_nothing(
    answer: Infeasible | InsufficientFreeGpus | PlannerError, reason: str, words: str
) -> None:
    cluster = ClusterModel(job=a_job(), answer=answer)

    cluster.settle()

    found = condition(cluster.job.status, ConditionType.PLANNED)
    assert found
    assert (found.status, found.reason) == ("False", reason)
    assert words in found.message
    assert not cluster.children
    assert not cluster.pods


def test_plan_says_for_good_which_nodes_it_was_made_without() -> None:
    left_out = "2 nodes left out (l4-7, l4-8): cordoned"
    cluster = ClusterModel(job=a_job(), answer=a_plan(), left_out=left_out)
    cluster.settle()
    cluster.planning = None

    cluster.settle()

    found = condition(cluster.job.status, ConditionType.PLANNED)
    assert found
    assert found.status == "True"
    assert found.message.endswith(f"; when it was made: {left_out}")


def test_infeasible_job_is_planned_again_when_the_fleet_changes() -> None:
    cluster = ClusterModel(job=a_job(), answer=Infeasible(reasons=("no GPU",)))
    cluster.settle()

    cluster.answer = a_plan()
    assert cluster.planning
    cluster.move_fleet("another fleet")
    cluster.settle()

    assert cluster.job.status.phase == "Deploying"


def test_suspending_stops_trainers_first_and_frees_every_gpu() -> None:
    cluster = a_running_job()

    cluster.change(suspend=True)
    cluster.round()

    assert {pod.role for pod in cluster.pods.values()} == {Role.COORDINATOR, Role.ROLLOUT}
    assert cluster.job.status.phase == "Suspending"
    cluster.settle()
    assert cluster.job.status.phase == "Suspended"
    assert not cluster.pods
    assert cluster.planning
    assert not cluster.planning.is_reserved


def test_resumed_job_keeps_its_plan_and_certificates() -> None:
    cluster = a_running_job()
    plans = dict(cluster.plans)
    cluster.change(suspend=True)
    cluster.settle()

    cluster.change(suspend=False)
    cluster.settle()
    cluster.make_ready()
    cluster.settle()

    assert cluster.job.status.phase == "Running"
    assert cluster.plans == plans
    assert cluster.certificates_issued == 1
    assert reason_of(cluster, ConditionType.SUSPENDED) == Reason.RESUMED


def test_resumed_job_whose_gpus_are_taken_is_planned_again() -> None:
    cluster = a_running_job()
    cluster.change(suspend=True)
    cluster.settle()
    assert cluster.planning

    cluster.change(suspend=False)
    cluster.planning = replace(cluster.planning, conflict="a100-0 has 0 free GPUs", answer=None)
    cluster.round()
    cluster.planning = replace(cluster.planning, conflict="")
    cluster.answer = a_plan(machine="a100-1")
    cluster.settle()

    assert cluster.followed.plan.groups[0].replicas[0].shares[0].machine == "a100-1"


def test_job_created_suspended_creates_nothing() -> None:
    cluster = a_cluster(a_job(suspend=True), a_plan())

    cluster.settle()

    assert cluster.job.status.phase == "Suspended"
    assert not cluster.children
    assert not cluster.plans


def test_finished_job_frees_its_gpus_and_keeps_its_record() -> None:
    cluster = a_running_job()

    cluster.progress = a_report(
        10, finished=True, outcome="Succeeded", reason="AllStepsDone", message="10 steps"
    )
    cluster.settle()

    assert cluster.job.status.phase == "Succeeded"
    assert not cluster.pods
    assert cluster.planning
    assert not cluster.planning.is_reserved
    assert cluster.job.status.progress
    assert cluster.job.status.progress.step == 10
    assert cluster.job.status.completion_time


def test_finished_job_stays_finished_when_the_operator_forgets_everything() -> None:
    cluster = a_running_job()
    cluster.progress = a_report(10, finished=True, outcome="Succeeded", reason="AllStepsDone")
    cluster.settle()
    status = cluster.job.status

    cluster.progress = None
    cluster.settle()

    assert cluster.job.status == status


@pytest.mark.parametrize(
    ("pod", "code", "words", "phase", "reason", "said"),
    [
        pytest.param(
            "math-coordinator-0",
            0,
            "",
            "Succeeded",
            Reason.ALL_STEPS_DONE,
            "last step",
            id="lost-report",
        ),
        pytest.param(
            "math-coordinator-0",
            3,
            "log\nNoLearningSignal: rewards never vary",
            "Failed",
            Reason.NO_LEARNING_SIGNAL,
            "rewards never vary",
            id="no-learning-signal",
        ),
        pytest.param(
            "math-coordinator-0",
            3,
            "log\nNotFinite: a step was not finite in 3 versions in a row",
            "Failed",
            Reason.NOT_FINITE,
            "3 versions in a row",
            id="not-finite",
        ),
        pytest.param(
            "math-trainer-a100-80gb-0-0",
            3,
            "EngineMismatch: trainer and engine differ by 4.7 nats a token",
            "Failed",
            Reason.ENGINE_MISMATCH,
            "differ by 4.7 nats",
            id="engine-mismatch",
        ),
        pytest.param(
            "math-trainer-a100-80gb-0-0",
            3,
            "/hetrl/claims/data/model: no such folder",
            "Failed",
            Reason.TRAINER_FAILED,
            "/hetrl/claims/data/model",
            id="missing-model",
        ),
        pytest.param(
            "math-rollout-l4-0-0",
            3,
            "/x: not a model",
            "Failed",
            Reason.ROLLOUT_FAILED,
            "/x: not a model",
            id="rollout",
        ),
        pytest.param(
            "math-inference-l4-0-0",
            3,
            "/x: not a model",
            "Failed",
            Reason.INFERENCE_FAILED,
            "/x: not a model",
            id="inference",
        ),
    ],
)
def test_end_of_a_process_ends_the_job(  # noqa: PLR0917
    pod: str, code: int, words: str, phase: str, reason: str, said: str
) -> None:
    cluster = a_running_job(inference=("l4-9",))

    cluster.crash(pod, code, words)
    cluster.settle()

    assert cluster.job.status.phase == phase
    ended = ConditionType.COMPLETE if phase == "Succeeded" else ConditionType.FAILED
    found = condition(cluster.job.status, ended)
    assert found
    assert found.reason == reason
    assert said in found.message
    assert not cluster.pods


def test_finished_job_is_deleted_after_its_time_to_live() -> None:
    cluster = a_cluster(a_job(ttlSecondsAfterFinished=60), a_plan())
    cluster.settle()
    cluster.progress = a_report(10, finished=True, outcome="Succeeded", reason="AllStepsDone")
    cluster.settle()
    assert not cluster.is_deleted

    cluster.now = cluster.now.replace(minute=10)

    assert any(isinstance(each, DeleteJob) for each in cluster.round())
