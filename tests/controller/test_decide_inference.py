"""Inference workers of a job on the model of a cluster: awaited, lost, moved to and from."""

from dataclasses import replace

import pytest

from hetrl_core.task import Role
from hetrl_operator.model.conditions import condition
from hetrl_operator.model.reasons import ConditionType, EventReason, Reason
from tests.controller.cluster_model import ClusterModel, a_cluster, a_running_job, reason_of, uids
from tests.controller.values import a_job, a_plan

FIRST, SECOND = "math-inference-l4-0-0", "math-inference-l4-0-1"
APART = a_plan(inference=("l4-8", "l4-9"))


def a_job_with_inference(**spec: object) -> ClusterModel:
    return a_running_job(a_job(**spec), inference=("l4-8", "l4-9"))


def not_ready(cluster: ClusterModel, *names: str) -> None:
    for name in names:
        cluster.pods[name] = replace(cluster.pods[name], is_ready=False)
    cluster.settle()


def let_settle(cluster: ClusterModel) -> None:
    """Let pods start as often as the operator makes some."""
    for _ in range(10):
        cluster.pass_time(seconds=2)
        cluster.settle()
        cluster.make_ready()
    cluster.settle()


def test_job_starts_with_its_inference_workers() -> None:
    cluster = a_cluster(a_job(), APART)

    cluster.settle()

    assert set(uids(cluster, Role.INFERENCE)) == {FIRST, SECOND}
    assert cluster.certificates_issued == 1
    assert cluster.job.status.phase == "Deploying"
    assert {cluster.pods[each].node for each in (FIRST, SECOND)} == {"l4-8", "l4-9"}


@pytest.mark.parametrize(
    ("missing", "phase", "ready", "degraded"),
    [
        pytest.param((), "Running", Reason.ALL_READY, Reason.AS_PLANNED, id="none"),
        pytest.param(
            (SECOND,), "Running", Reason.MIN_READY, Reason.INFERENCE_BELOW_DESIRED, id="one"
        ),
        pytest.param((FIRST, SECOND), "Restarting", Reason.STARTING, Reason.AS_PLANNED, id="all"),
    ],
)
def test_job_runs_as_long_as_an_inference_worker_is_ready(
    missing: tuple[str, ...], phase: str, ready: str, degraded: str
) -> None:
    cluster = a_job_with_inference()

    not_ready(cluster, *missing)

    assert cluster.job.status.phase == phase
    assert reason_of(cluster, ConditionType.INFERENCE_READY) == ready
    assert reason_of(cluster, ConditionType.DEGRADED) == degraded
    shown = cluster.job.status.inference
    assert shown
    assert shown.summary == f"{2 - len(missing)}/2"


def test_job_without_inference_workers_says_nothing_of_them() -> None:
    cluster = a_running_job()

    assert condition(cluster.job.status, ConditionType.INFERENCE_READY) is None
    assert cluster.job.status.inference is None
    assert "inference" not in condition(cluster.job.status, ConditionType.RUNNING).message  # type: ignore[union-attr]


def test_lost_inference_workers_never_fail_a_job() -> None:
    cluster = a_job_with_inference()
    others = {name: uid for name, uid in uids(cluster).items() if name != SECOND}

    for _ in range(30):
        cluster.kill(SECOND)
        cluster.settle()
        cluster.make_ready()
        cluster.settle()

    assert cluster.job.status.phase == "Running"
    assert cluster.job.status.restarts == 0
    assert others.items() <= uids(cluster).items()


def test_inference_worker_with_an_error_restarts_in_place() -> None:
    cluster = a_job_with_inference(failurePolicy={"maxRestarts": 0})
    before = uids(cluster)

    for _ in range(5):
        cluster.pass_time(seconds=5)
        cluster.crash(FIRST, 1, "CUDA out of memory")
        cluster.settle()
        cluster.make_ready()
        cluster.settle()

    assert cluster.job.status.phase == "Running"
    assert uids(cluster) == before
    assert cluster.job.status.recent_restarts == ()


def test_inference_worker_alone_moves_off_a_lost_node() -> None:
    cluster = a_job_with_inference(failurePolicy={"nodeLostSeconds": 60})
    before = uids(cluster)
    cluster.answer = a_plan(inference=("l4-8", "l4-7"))
    cluster.lost_nodes = {"l4-9": cluster.now}
    not_ready(cluster, SECOND)
    assert reason_of(cluster, ConditionType.DEGRADED) == Reason.NODE_LOST

    cluster.pass_time(seconds=61)
    let_settle(cluster)

    assert cluster.pods[SECOND].node == "l4-7"
    assert before.keys() - {SECOND} == {n for n, uid in before.items() if uids(cluster)[n] == uid}
    assert cluster.job.status.phase == "Running"


def test_suspended_job_holds_no_inference_worker() -> None:
    cluster = a_job_with_inference()

    cluster.change(suspend=True)
    cluster.settle()

    assert not cluster.pods
    assert cluster.planning
    assert not cluster.planning.is_reserved
    assert reason_of(cluster, ConditionType.INFERENCE_READY) == Reason.SUSPENDED


@pytest.mark.parametrize(
    ("machines", "said"),
    [
        pytest.param(("l4-8", "l4-9"), "0 -> 2 inference pods", id="to-workers"),
        pytest.param((), "2 -> 0 inference pods", id="back-to-the-trainer"),
    ],
)
def test_scoring_change_replaces_all_workers_at_once(machines: tuple[str, ...], said: str) -> None:
    cluster = a_running_job() if machines else a_job_with_inference()
    before = uids(cluster)
    cluster.answer = a_plan(inference=machines)

    cluster.change(resources={"maxGPUs": 5})
    let_settle(cluster)

    assert cluster.job.status.phase == "Running"
    assert len(uids(cluster, Role.INFERENCE)) == len(machines)
    # Both must have certificates of the same authority.
    assert not set(before.values()) & set(uids(cluster).values())
    assert cluster.certificates_issued == 2
    assert said in cluster.messages_of(EventReason.REPLANNED)[0]
    has_condition = condition(cluster.job.status, ConditionType.INFERENCE_READY) is not None
    assert has_condition is bool(machines)
    assert cluster.job.status.restarts == 0


def test_additional_inference_workers_touch_no_existing_pod() -> None:
    cluster = a_job_with_inference()
    before = uids(cluster)
    cluster.answer = a_plan(inference=("l4-8", "l4-9", "l4-9"))

    cluster.change(resources={"maxGPUs": 6})
    let_settle(cluster)

    assert before.items() <= uids(cluster).items()
    assert len(uids(cluster, Role.INFERENCE)) == 3
    assert cluster.certificates_issued == 1
