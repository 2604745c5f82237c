"""Reader of HetRLJobs."""

import json

from pydantic import ValidationError

from hetrl_api.job.status import JobStatus
from hetrl_operator.model.kueue.api import PRIORITY_LABEL, QUEUE_LABEL
from hetrl_operator.model.observed import (
    JobSeen,
)
from hetrl_operator.model.parse.objects import Body, JobKey, optional_time, time_of
from hetrl_operator.model.parse_spec import parse_spec
from hetrl_operator.model.plain import plain


def key_of_job(body: Body) -> JobKey:
    """Return the key of a HetRLJob."""
    return body["metadata"]["namespace"], body["metadata"]["name"]


def job_seen(body: Body) -> JobSeen:
    """Read a HetRLJob; a spec that cannot be worked on becomes a problem in words."""
    metadata = body["metadata"]
    labels = metadata.get("labels") or {}
    parsed, problem = parse_spec(body)
    return JobSeen(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        version=metadata.get("resourceVersion", ""),
        generation=int(metadata.get("generation", 0)),
        created_at=time_of(metadata["creationTimestamp"]),
        deleted_at=optional_time(metadata.get("deletionTimestamp")),
        finalizers=tuple(metadata.get("finalizers") or ()),
        parsed=parsed,
        problem=problem,
        status=_status(body.get("status") or {}),
        queue=labels.get(QUEUE_LABEL, ""),
        queue_priority=labels.get(PRIORITY_LABEL, ""),
    )


def _status(written: Body) -> JobStatus:
    """Read a status; an unreadable one, as of another release, counts as empty."""
    try:
        return JobStatus.model_validate_json(json.dumps(plain(written)))
    except ValidationError:
        return JobStatus()
