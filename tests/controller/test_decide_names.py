"""Decisions where an object of others has a name that a job needs, on the model of a cluster."""

from dataclasses import replace

import pytest

from hetrl_operator.decide import decide
from hetrl_operator.model.actions import Apply, Delete
from hetrl_operator.model.conditions import condition
from hetrl_operator.model.observed import ChildSeen, RefusedWrite
from hetrl_operator.model.reasons import ConditionType, EventReason, Reason
from tests.controller.cluster_model import a_cluster, a_running_job, reason_of
from tests.controller.queueing import Queue, a_queued_job
from tests.controller.values import SETTINGS, a_job, a_plan

THEIRS = ChildSeen(kind="ConfigMap", name="math-coordinator", uid="theirs", owner_uid="")


@pytest.mark.parametrize(
    ("child", "reason"),
    [
        pytest.param(THEIRS, Reason.NAME_TAKEN, id="labelled as ours"),
        pytest.param(
            replace(THEIRS, owner_uid="uid-9", owner="HetRLJob mathematics"),
            Reason.NAME_TAKEN,
            id="another job's",
        ),
        pytest.param(
            replace(THEIRS, owner_uid="uid-0", owner="HetRLJob math"),
            Reason.CONFLICT,
            id="an earlier job's",
        ),
        pytest.param(replace(THEIRS, is_deleting=True), Reason.CONFLICT, id="about to be gone"),
    ],
)
def test_job_writes_nothing_while_a_name_is_taken(child: ChildSeen, reason: str) -> None:
    cluster = a_running_job()
    cluster.children[child.kind, child.name] = child
    before = len(cluster.written)

    cluster.settle()

    assert reason_of(cluster, ConditionType.RESOURCES_CREATED) == reason
    assert cluster.messages_of(EventReason.FAILED_TO_APPLY)
    assert not [each for each in cluster.written[before:] if isinstance(each, Apply | Delete)]


@pytest.mark.parametrize("is_queued", [False, True])
def test_refused_write_is_reported_for_a_job_without_a_plan(*, is_queued: bool) -> None:
    cluster = a_cluster(a_queued_job() if is_queued else a_job(), a_plan())
    cluster.queue = Queue() if is_queued else None
    refused_write = RefusedWrite(
        reason=Reason.NAME_TAKEN, message="HetRLPlan math-k exists already"
    )

    decision = decide(
        replace(cluster.observe(), refused_write=refused_write), cluster.now, SETTINGS
    )

    assert decision.status
    found = condition(decision.status.status, ConditionType.RESOURCES_CREATED)
    assert found
    assert (found.status, found.reason) == ("False", refused_write.reason)
    assert found.message == refused_write.message
