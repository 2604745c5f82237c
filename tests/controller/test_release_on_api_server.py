"""How jobs are suspended and let go on a real API server, their checkpoints first."""

import pytest

from hetrl_operator.labels import EventReason, Reason
from tests.controller.api_server import (
    COORDINATOR,
    events,
    hold_back,
    is_stopping,
    let_go,
    pod_of,
    start,
    tells,
    uids,
)
from tests.controller.operator_process import Namespace, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_a_deleted_job_stops_its_trainers_first_and_then_goes(space: Namespace) -> None:
    start(space)
    trainer = pod_of(space, "trainer")
    hold_back(space, trainer)
    assert space.job()["metadata"]["finalizers"] == ["hetrl.dev/release"]

    space.cluster.kubectl("delete", "-n", space.name, "hetrljob", "sums", "--wait=false")

    space.wait_for_reason("Running", Reason.DELETING)
    eventually(lambda: is_stopping(space, trainer), what="the trainer stops")
    assert COORDINATOR in uids(space)
    assert not is_stopping(space, COORDINATOR)
    let_go(space, trainer)
    eventually(lambda: not space.get("hetrljobs")["items"], what="the job is gone")
    eventually(lambda: not space.get("pods")["items"], what="the pods are gone")


def test_a_deleted_job_is_let_go_at_its_deadline_whatever_is_left(space: Namespace) -> None:
    start(space, releaseDeadlineSeconds=2)
    trainer = pod_of(space, "trainer")
    hold_back(space, trainer)

    space.cluster.kubectl("delete", "-n", space.name, "hetrljob", "sums", "--wait=false")

    eventually(lambda: not space.get("hetrljobs")["items"], what="the job is gone")
    assert trainer in tells(space, EventReason.RELEASE_FORCED)
    let_go(space, trainer)


def test_suspending_asks_for_a_checkpoint_before_anything_else_stops(space: Namespace) -> None:
    start(space)
    trainer = pod_of(space, "trainer")
    hold_back(space, trainer)

    space.patch({"suspend": True})

    assert space.wait_for_reason("Suspended", Reason.SUSPENDING)["status"] == "False"
    assert COORDINATOR in uids(space)
    let_go(space, trainer)
    space.wait_for_reason("Suspended", Reason.SUSPENDED)
    assert space.condition("Planned")["reason"] == Reason.SUSPENDED
    assert space.job()["metadata"].get("finalizers", []) == []
    space.patch({"suspend": False})
    space.wait_for_phase("Running")
    assert space.condition("Suspended")["reason"] == Reason.RESUMED
    for each in (EventReason.CHECKPOINT_REQUESTED, EventReason.SUSPENDED, EventReason.RESUMED):
        assert len(events(space, each)) == 1, each
