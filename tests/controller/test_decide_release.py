"""The finalizer of a job that may hold GPUs, on the model of a cluster."""

from dataclasses import replace
from datetime import timedelta

import pytest

from hetrl_core.task import Role
from hetrl_operator.decide.pods.finalizer import is_overdue, left_seconds
from hetrl_operator.model.actions import AddFinalizer, Apply, RemoveFinalizer
from hetrl_operator.model.labels import FINALIZER
from hetrl_operator.model.reasons import ConditionType, EventReason, Reason
from tests.controller.cluster_model import a_cluster, a_running_job, reason_of
from tests.controller.values import a_job, a_plan, a_report


def test_job_is_held_before_its_first_pod() -> None:
    cluster = a_cluster(a_job(), a_plan())

    cluster.settle()

    kinds = [type(each) for each in cluster.written]
    sets = [
        number
        for number, each in enumerate(cluster.written)
        if isinstance(each, Apply) and each.manifest["kind"] == "StatefulSet"
    ]
    assert kinds.index(AddFinalizer) < min(sets)
    assert cluster.job.has_finalizer


@pytest.mark.parametrize("spec", [{"planning": {"mode": "PlanOnly"}}, {"suspend": True}])
def test_job_without_pods_is_never_held(spec: dict[str, object]) -> None:
    cluster = a_cluster(a_job(**spec), a_plan())

    cluster.settle()

    assert not cluster.job.has_finalizer


def test_deleted_job_stops_its_trainers_first_and_goes() -> None:
    cluster = a_running_job()

    cluster.delete_job()
    cluster.round()

    assert {pod.role for pod in cluster.pods.values()} == {Role.COORDINATOR, Role.ROLLOUT}
    assert reason_of(cluster, ConditionType.RUNNING) == Reason.DELETING
    cluster.settle()
    assert cluster.is_gone
    assert not cluster.pods
    assert cluster.planning
    assert not cluster.planning.is_reserved
    assert not cluster.messages_of(EventReason.RELEASE_FORCED)


def test_finalizer_of_a_deleted_job_is_removed_at_its_deadline() -> None:
    cluster = a_running_job(a_job(releaseDeadlineSeconds=120))
    cluster.delete_job()
    cluster.sets_do_nothing = True

    cluster.settle()
    assert not cluster.is_gone
    assert cluster.wake_after_seconds is not None
    assert cluster.wake_after_seconds <= 120
    cluster.pass_time(seconds=120)
    cluster.settle()

    assert cluster.is_gone
    assert len(cluster.messages_of(EventReason.RELEASE_FORCED)) == 1


@pytest.mark.parametrize(("seconds", "is_over"), [(119, False), (120, True)])
def test_release_deadline_is_over_when_it_is_reached(seconds: int, *, is_over: bool) -> None:
    cluster = a_running_job(a_job(releaseDeadlineSeconds=120))
    cluster.delete_job()

    now = cluster.now + timedelta(seconds=seconds)

    assert is_overdue(cluster.observe(), now) is is_over
    assert (left_seconds(cluster.observe(), now) == 0) is is_over


def test_children_deleted_with_the_job_are_not_recreated() -> None:
    cluster = a_running_job()
    cluster.delete_job()
    cluster.children.clear()
    cluster.sets.clear()
    cluster.pods.clear()
    before = len(cluster.written)

    cluster.settle()

    assert cluster.is_gone
    assert not [each for each in cluster.written[before:] if isinstance(each, Apply)]


def test_deleted_job_with_unreadable_spec_is_released_at_once() -> None:
    cluster = a_running_job()
    cluster.job = replace(cluster.job, parsed=None, problem="not ours any more")
    cluster.delete_job()

    cluster.settle()

    assert cluster.is_gone


@pytest.mark.parametrize("how", ["finished", "suspended"])
def test_job_is_held_only_while_it_has_pods(how: str) -> None:
    cluster = a_running_job()

    if how == "finished":
        cluster.progress = a_report(10, finished=True, outcome="Succeeded")
    else:
        cluster.change(suspend=True)
    cluster.settle()

    assert not cluster.pods
    assert not cluster.job.has_finalizer
    if how == "suspended":
        cluster.change(suspend=False)
        cluster.settle()
        assert cluster.job.has_finalizer


def test_finalizer_on_a_deleted_job_of_another_controller_is_removed() -> None:
    cluster = a_cluster(a_job(managedBy="example.com/other"), a_plan())
    cluster.job = replace(cluster.job, finalizers=(FINALIZER,))
    cluster.settle()
    assert cluster.written == []

    cluster.delete_job()
    cluster.settle()

    assert cluster.is_gone
    assert cluster.written == [RemoveFinalizer()]
