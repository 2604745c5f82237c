"""Results of a write: done, to be tried again, or refused with a reason for the user.

The functions read one response of the API server. The reconciler decides when to retry.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hetrl_operator.kube.client import Reply
from hetrl_operator.model.reasons import Reason

_NOT_FOUND, _CONFLICT, _FORBIDDEN, _INVALID = 404, 409, 403, 422
_PASSING = {0, 401, 408, 410, 429}
"""Statuses to retry: no response, an expired token, and three temporary errors."""

_SERVER_ERROR = 500

_CHANGED_MEANWHILE = "the object has been modified"

_KIND_UNKNOWN_YET = "cannot find RESTMapping"
"""Message of an admission error: it looks up an owner's kind in a copy of discovery.

The API server renews that copy every ten seconds. While it is older than our CRDs, every object of
a job is forbidden.
"""
_KIND_UNKNOWN_YET_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The write succeeded, or its object is gone already."""

    object: Mapping[str, Any]
    """The object after the write; empty if there is none."""

    is_missing: bool = False
    """Whether the object was gone already, which the watches did not show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TryAgain:
    """The write failed and may work later."""

    message: str
    after_seconds: float = 0.0
    is_missing: bool = False
    """Whether the object to change does not exist, which the watches do not show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The API server refused the write; a user has to change something."""

    reason: str
    """A reason of condition ResourcesCreated."""

    message: str


Outcome = Done | TryAgain | Refused


def outcome_of(reply: Reply, *, kind: str, is_json_patch: bool = False) -> Outcome:
    """Read the answer to a write.

    Args:
        reply: the response.
        kind: the written object, in words for the message.
        is_json_patch: whether the write was a JSON patch, whose tests may have failed.
    """
    if reply.is_success:
        return Done(object=reply.body)
    text = f"{kind}: {reply.message}"
    if is_json_patch and reply.status == _INVALID:
        # A failed test and an invalid result have the same status; the next reconcile tells them
        # apart by the current object.
        return TryAgain(message=text)
    if reply.status == _CONFLICT and _CHANGED_MEANWHILE in reply.message:
        return TryAgain(message=text)
    is_conflict = reply.status == _CONFLICT and not _is_field_conflict(reply)
    if reply.status == _NOT_FOUND or is_conflict or _is_of_another_object(reply):
        # Gone, or another object of that name by now.
        return TryAgain(message=text, is_missing=True)
    if reply.status in _PASSING or reply.status >= _SERVER_ERROR:
        return TryAgain(message=text, after_seconds=reply.retry_after_seconds or 0.0)
    if reply.status == _FORBIDDEN and _KIND_UNKNOWN_YET in reply.message:
        return TryAgain(message=text, after_seconds=_KIND_UNKNOWN_YET_SECONDS)
    return Refused(reason=_reason(reply), message=text)


def outcome_of_reading(reply: Reply, *, kind: str) -> Outcome:
    """Read the response to a failed read; a missing object is for a user to create."""
    if reply.status == _NOT_FOUND:
        return Refused(reason=Reason.APPLY_FAILED, message=f"{kind} does not exist")
    return outcome_of(reply, kind=kind)


def _is_field_conflict(reply: Reply) -> bool:
    return any(each.get("reason") == "FieldManagerConflict" for each in _causes(reply))


def _is_of_another_object(reply: Reply) -> bool:
    """Tell whether the UID that was written is not the object's: an invalid change of it."""
    fields = {each.get("field") for each in _causes(reply)}
    return reply.status == _INVALID and "metadata.uid" in fields


def _causes(reply: Reply) -> Sequence[Mapping[str, Any]]:
    return (reply.body.get("details") or {}).get("causes") or ()


def _reason(reply: Reply) -> str:
    if reply.status == _CONFLICT:
        return Reason.CONFLICT
    if reply.status == _FORBIDDEN:
        return Reason.QUOTA_EXCEEDED if "quota" in reply.message else Reason.FORBIDDEN
    return Reason.APPLY_FAILED
