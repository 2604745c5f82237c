"""Which objects with the name of a job's child are the job's, by what their owner says."""

from typing import Any

import pytest

from hetrl_operator.model.name_conflict import name_conflict
from hetrl_operator.model.observed import ChildSeen
from hetrl_operator.model.reasons import Reason
from tests.controller.values import a_job


def a_child(**changes: Any) -> ChildSeen:
    fields = {"kind": "ConfigMap", "name": "math-coordinator", "uid": "1", "owner_uid": ""}
    return ChildSeen(**{**fields, **changes})


@pytest.mark.parametrize(
    ("child", "reason", "words"),
    [
        pytest.param(
            a_child(), Reason.NAME_TAKEN, "ConfigMap math-coordinator exists already", id="no owner"
        ),
        pytest.param(
            a_child(owner_uid="uid-9", owner="HetRLJob mathematics"),
            Reason.NAME_TAKEN,
            "belongs to HetRLJob mathematics",
            id="another job",
        ),
        pytest.param(
            a_child(owner_uid="uid-9", owner="Deployment math"),
            Reason.NAME_TAKEN,
            "belongs to Deployment math",
            id="another kind of the job's name",
        ),
        pytest.param(
            a_child(owner_uid="uid-0", owner="HetRLJob math"),
            Reason.CONFLICT,
            "earlier HetRLJob math (UID uid-0)",
            id="an earlier job of the same name",
        ),
        pytest.param(
            a_child(is_deleting=True), Reason.CONFLICT, "is being deleted", id="about to be gone"
        ),
        pytest.param(
            a_child(owner_uid="uid-1", owner="HetRLJob math", is_deleting=True),
            Reason.CONFLICT,
            "is being deleted",
            id="the job's own that is about to be gone",
        ),
    ],
)
def test_foreign_object_is_named_with_what_happens_next(
    child: ChildSeen, reason: str, words: str
) -> None:
    found = name_conflict(child, a_job())

    assert found
    assert found.reason == reason
    assert words in found.message
    assert "continues" in found.message


def test_object_whose_controller_is_the_job_is_the_jobs() -> None:
    assert name_conflict(a_child(owner_uid="uid-1", owner="HetRLJob math"), a_job()) is None
