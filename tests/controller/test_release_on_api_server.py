"""How jobs are suspended and let go on a real API server, their checkpoints first."""

import pytest

from hetrl_operator.model.reasons import EventReason, Reason
from tests.controller.api_server import (
    COORDINATOR,
    events,
    held_back,
    is_stopping,
    pod_of,
    start,
    tells,
)
from tests.controller.operator_process import Namespace, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def delete(space: Namespace) -> None:
    space.cluster.kubectl("delete", "-n", space.name, "hetrljob", "sums", "--wait=false")


def test_a_deleted_job_stops_its_trainers_first_and_then_goes(space: Namespace) -> None:
    start(space)
    trainer = pod_of(space, "trainer")
    assert space.job()["metadata"]["finalizers"] == ["hetrl.dev/release"]

    with held_back(space, trainer):
        delete(space)
        space.wait_for_reason("Running", Reason.DELETING)
        eventually(lambda: is_stopping(space, trainer), what="the trainer stops")
        assert not is_stopping(space, COORDINATOR)

    eventually(lambda: not space.get("hetrljobs")["items"], what="the job is gone")
    eventually(lambda: not space.get("pods")["items"], what="the pods are gone")


def test_a_deleted_job_is_let_go_at_its_deadline_whatever_is_left(space: Namespace) -> None:
    start(space, releaseDeadlineSeconds=4)
    trainer = pod_of(space, "trainer")

    with held_back(space, trainer):
        delete(space)

        eventually(lambda: not space.get("hetrljobs")["items"], what="the job is gone")
        assert trainer in tells(space, EventReason.RELEASE_FORCED)


def test_suspending_asks_for_a_checkpoint_before_anything_else_stops(space: Namespace) -> None:
    start(space)
    trainer = pod_of(space, "trainer")

    with held_back(space, trainer):
        space.patch({"suspend": True})
        assert space.wait_for_reason("Suspended", Reason.SUSPENDING)["status"] == "False"
        eventually(lambda: is_stopping(space, trainer), what="the trainer stops")
        assert not is_stopping(space, COORDINATOR)

    space.wait_for_reason("Suspended", Reason.SUSPENDED)
    assert space.condition("Planned")["reason"] == Reason.SUSPENDED
    eventually(
        lambda: not space.job()["metadata"].get("finalizers"), what="the job is held no more"
    )
    space.patch({"suspend": False})
    space.wait_for_phase("Running")
    assert space.condition("Suspended")["reason"] == Reason.RESUMED
    for each in (EventReason.CHECKPOINT_REQUESTED, EventReason.SUSPENDED, EventReason.RESUMED):
        assert len(events(space, each)) == 1, each
