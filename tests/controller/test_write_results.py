"""Results of writes, from the API server's responses."""

import pytest

from hetrl_operator.kube.client import Reply
from hetrl_operator.kube.write_results import (
    Done,
    Outcome,
    Refused,
    TryAgain,
    outcome_of,
    outcome_of_reading,
)
from hetrl_operator.model.reasons import Reason

NEW_CRDS = (
    "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion "
    'hetrl.dev/v1alpha1 Kind HetRLJob: no matches for kind "HetRLJob"'
)
OLDER = "the object has been modified; please apply your changes to the latest version"
ANOTHER_UID = {"causes": [{"reason": "FieldValueInvalid", "field": "metadata.uid"}]}
OUR_FIELDS_ARE_ANOTHERS = {"causes": [{"reason": "FieldManagerConflict"}]}


def reply(status: int, message: str = "so it is", *, after: float | None = None) -> Reply:
    return Reply(status=status, body={"message": message}, retry_after_seconds=after)


def text_of(message: str) -> str:
    return f"Service a: {message}"


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        pytest.param(reply(0, "refused"), TryAgain(message=text_of("refused")), id="no answer"),
        pytest.param(reply(401), TryAgain(message=text_of("so it is")), id="an expired token"),
        pytest.param(
            reply(429, after=3.0),
            TryAgain(message=text_of("so it is"), after_seconds=3.0),
            id="as late as the server asks",
        ),
        pytest.param(reply(503), TryAgain(message=text_of("so it is")), id="a server in trouble"),
        pytest.param(reply(404), TryAgain(message=text_of("so it is"), is_missing=True), id="gone"),
        pytest.param(
            reply(409),
            TryAgain(message=text_of("so it is"), is_missing=True),
            id="another object of that name",
        ),
        pytest.param(
            Reply(status=422, body={"message": "so it is", "details": ANOTHER_UID}),
            TryAgain(message=text_of("so it is"), is_missing=True),
            id="an object of that name with another uid",
        ),
        pytest.param(
            reply(409, OLDER),
            TryAgain(message=text_of(OLDER)),
            id="what was decided on is older",
        ),
        pytest.param(
            Reply(status=409, body={"message": "mine", "details": OUR_FIELDS_ARE_ANOTHERS}),
            Refused(reason=Reason.CONFLICT, message=text_of("mine")),
            id="another manager's field",
        ),
        pytest.param(
            reply(403, NEW_CRDS),
            TryAgain(message=text_of(NEW_CRDS), after_seconds=2.0),
            id="CRDs that admission has not seen yet",
        ),
        pytest.param(
            reply(403, "exceeded quota: small"),
            Refused(reason=Reason.QUOTA_EXCEEDED, message=text_of("exceeded quota: small")),
            id="a quota",
        ),
        pytest.param(
            reply(403),
            Refused(reason=Reason.FORBIDDEN, message=text_of("so it is")),
            id="no right",
        ),
        pytest.param(
            reply(422),
            Refused(reason=Reason.APPLY_FAILED, message=text_of("so it is")),
            id="an invalid object",
        ),
    ],
)
def test_response_is_final_transient_or_for_the_user_to_fix(
    answer: Reply, outcome: Outcome
) -> None:
    assert outcome_of(answer, kind="Service a") == outcome


def test_written_object_is_returned_as_the_server_has_it() -> None:
    written = {"metadata": {"uid": "1"}}

    assert outcome_of(Reply(status=201, body=written), kind="Service a") == Done(object=written)


def test_missing_object_is_left_for_the_user_to_create() -> None:
    refused = Refused(reason=Reason.APPLY_FAILED, message="PriorityClass high does not exist")

    assert outcome_of_reading(reply(404), kind="PriorityClass high") == refused
    assert isinstance(outcome_of_reading(reply(500), kind="PriorityClass high"), TryAgain)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        pytest.param(reply(422), TryAgain(message=text_of("so it is")), id="a test that failed"),
        pytest.param(
            reply(409, OLDER), TryAgain(message=text_of(OLDER)), id="another version by now"
        ),
        pytest.param(reply(404), TryAgain(message=text_of("so it is"), is_missing=True), id="gone"),
        pytest.param(
            reply(403),
            Refused(reason=Reason.FORBIDDEN, message=text_of("so it is")),
            id="no right",
        ),
    ],
)
def test_json_patch_whose_test_fails_is_tried_again(answer: Reply, outcome: Outcome) -> None:
    assert outcome_of(answer, kind="Service a", is_json_patch=True) == outcome
