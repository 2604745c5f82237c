"""The check whether an object with the name of a job's child is that child.

Only an object whose controller is this job is written or deleted. Labels prove nothing: a user may
set them, and a copy of one of our objects has them too.
"""

from dataclasses import dataclass

from hetrl_operator.model.observed import ChildSeen, JobSeen
from hetrl_operator.model.reasons import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class NameConflict:
    """An object with the name of a child that is not one."""

    reason: str
    """A reason of condition ResourcesCreated."""

    message: str


def name_conflict(found: ChildSeen, job: JobSeen) -> NameConflict | None:
    """Return why an object cannot be written for a job; None if it is the job's own."""
    name = f"{found.kind} {found.name}"
    if found.is_deleting:
        text = f"{name} is being deleted; the job continues when it is gone"
        return NameConflict(reason=Reason.CONFLICT, message=text)
    if found.owner_uid == job.uid:
        return None
    if found.owner == f"HetRLJob {job.name}":
        text = (
            f"{name} belongs to an earlier HetRLJob {job.name} (UID {found.owner_uid}); the job "
            "continues when the garbage collector has deleted it"
        )
        return NameConflict(reason=Reason.CONFLICT, message=text)
    whose = f"belongs to {found.owner}" if found.owner else "has no owner reference of this job"
    return taken(name, f"it {whose}")


def taken(name: str, why: str) -> NameConflict:
    """Return the conflict with an object of another owner.

    Args:
        name: kind and name of the object.
        why: what shows that the object is not the job's.
    """
    text = (
        f"{name} exists already and is left unchanged: {why}. Rename or delete it, or give the "
        "HetRLJob another name; the job continues by itself when the name is free"
    )
    return NameConflict(reason=Reason.NAME_TAKEN, message=text)
