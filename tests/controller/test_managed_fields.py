"""Which fields count as applied by us after our creation, and what is more than was written."""

from typing import Any

import pytest

from hetrl_operator.kube.managed_fields import created_as_applied, has_more
from hetrl_operator.model.labels import FIELD_MANAGER


def an_entry(manager: str, operation: str, fields: dict[str, Any], **more: str) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "time": "2026-01-31T12:00:00Z",
        "fieldsV1": fields,
        **more,
    }


A, B = {"f:data": {".": {}, "f:a": {}}}, {"f:data": {"f:b": {}}}
BOTH = {"f:data": {".": {}, "f:a": {}, "f:b": {}}}
CREATED, APPLIED = (
    an_entry(FIELD_MANAGER, "Update", A),
    an_entry(FIELD_MANAGER, "Apply", B),
)
STATUS = an_entry(FIELD_MANAGER, "Update", A, subresource="status")
THEIRS = an_entry("kubectl", "Update", A)


@pytest.mark.parametrize(
    ("entries", "patched"),
    [
        pytest.param(
            [CREATED, THEIRS], [an_entry(FIELD_MANAGER, "Apply", A), THEIRS], id="created"
        ),
        pytest.param(
            [APPLIED, CREATED, STATUS],
            [an_entry(FIELD_MANAGER, "Apply", BOTH), STATUS],
            id="created, and then applied by an earlier release",
        ),
        pytest.param([APPLIED, THEIRS, STATUS], None, id="applied"),
        pytest.param([], None, id="nothing recorded"),
    ],
)
def test_fields_of_our_creation_count_as_applied(
    entries: list[dict[str, Any]], patched: list[dict[str, Any]] | None
) -> None:
    found = created_as_applied({"uid": "1", "resourceVersion": "7", "managedFields": entries})

    assert (found and found[1]["value"]) == patched
    assert found is None or [each["op"] for each in found] == ["test", "replace", "replace"]


@pytest.mark.parametrize(
    ("found", "written", "expected"),
    [
        pytest.param({"a": 1}, {"a": 2}, False, id="another value"),
        pytest.param({"a": 1}, {"a": 1, "b": 2}, False, id="less, as an older CRD keeps"),
        pytest.param({"a": 1, "b": 2}, {"a": 1}, True, id="a field"),
        pytest.param({"a": {"b": 1}}, {"a": {}}, True, id="a field of a field"),
        pytest.param([{"type": "A"}, {"type": "B"}], [{"type": "A"}], True, id="an item"),
        pytest.param([{"type": "A", "x": 1}], [{"type": "A"}], True, id="a field of an item"),
        pytest.param("longer", "long", False, id="a text"),
        pytest.param(None, {}, False, id="nothing"),
    ],
)
def test_stored_value_has_more_than_was_written(
    found: object, written: object, *, expected: bool
) -> None:
    assert has_more(found, written) is expected
