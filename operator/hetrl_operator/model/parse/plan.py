"""Reader of HetRLPlans."""

from datetime import datetime
from hashlib import sha256

from hetrl_api.load import parse
from hetrl_api.plan.plan import HetRLPlan
from hetrl_api.plan.to_core import to_plan
from hetrl_api.validation.errors import InvalidObjectError
from hetrl_operator.model.labels import (
    ACTIVE_FOR,
    ANSWERED,
    FLEET_HASH,
    JOB_NAME,
    JOB_UID,
    LEFT_OUT,
    PLAN_KEY,
    PLANNED_FOR,
    REPLACED_AT,
    REPLACES,
    REPLACES_BECAUSE,
    is_plan_name,
)
from hetrl_operator.model.parse.objects import Body, JobKey, controller_of, time_of
from hetrl_operator.model.plain import plain
from hetrl_operator.model.planning import PlanSeen, UnreadablePlan


def plan_seen(body: Body) -> PlanSeen | UnreadablePlan | None:
    """Read a HetRLPlan of any author; None if it is being deleted."""
    metadata = body["metadata"]
    if "deletionTimestamp" in metadata:
        return None
    name, uid = metadata["name"], metadata["uid"]
    try:
        written = parse(HetRLPlan, {**plain(body), "metadata": {"name": name}})
        plan = to_plan(written.spec)
    except (InvalidObjectError, ValueError) as error:
        return UnreadablePlan(name=name, uid=uid, problem=str(error).replace("\n", "; "))
    annotations = metadata.get("annotations") or {}
    made_for = _made_for(metadata)
    read = annotations if made_for else {}
    return PlanSeen(
        name=name,
        uid=uid,
        made_for=made_for,
        planned_for=read.get(PLANNED_FOR) or read.get(ANSWERED, ""),
        key=read.get(PLAN_KEY) or sha256(uid.encode()).hexdigest()[:32],
        left_out=read.get(LEFT_OUT, ""),
        replaces=read.get(REPLACES, ""),
        replaces_because=read.get(REPLACES_BECAUSE, ""),
        fleet=read.get(FLEET_HASH, ""),
        plan=plan,
        created_at=time_of(metadata["creationTimestamp"]),
        active_for=annotations.get(ACTIVE_FOR, ""),
        replaced_at=_replaced_at(metadata) if made_for else None,
    )


def key_of_plan(body: Body) -> JobKey:
    """Return the key of the job that a plan was made for or is active for; else an empty name."""
    metadata = body["metadata"]
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    name = labels.get(JOB_NAME) if _made_for(metadata) else annotations.get(ACTIVE_FOR)
    return metadata["namespace"], name or ""


def _replaced_at(metadata: Body) -> datetime | None:
    annotations = metadata["annotations"]
    if PLANNED_FOR in annotations:
        return None
    try:
        return time_of(annotations[REPLACED_AT])
    except (KeyError, ValueError):
        return time_of(metadata["creationTimestamp"])


def _made_for(metadata: Body) -> str:
    """Return the uid of the job that the operator made a plan for.

    A copy that a user has edited carries our labels and annotations too, but not the name that
    follows from them, or not the owner reference. It is the user's: it is never deleted.
    """
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    controller = controller_of(metadata)
    if controller is None or not {PLANNED_FOR, ANSWERED} & annotations.keys():
        return ""
    uid, job, key = labels.get(JOB_UID, ""), labels.get(JOB_NAME, ""), annotations.get(PLAN_KEY, "")
    is_ours = controller["uid"] == uid and is_plan_name(metadata["name"], job, key)
    return uid if is_ours else ""
