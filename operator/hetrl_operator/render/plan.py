"""The HetRLPlan object of a plan that the operator made."""

from hetrl_api.plan.to_core import from_plan
from hetrl_core.plan.plan import Plan
from hetrl_operator.model.actions import Manifest
from hetrl_operator.model.labels import (
    ACTIVE_FOR,
    API_VERSION,
    FLEET_HASH,
    LEFT_OUT,
    PLAN_KEY,
    PLANNED_FOR,
    REPLACES,
    REPLACES_BECAUSE,
    of_child,
)
from hetrl_operator.model.observed import JobSeen
from hetrl_operator.render.deployment import owner_of


def plan_manifest(
    job: JobSeen,
    plan: Plan,
    *,
    key: str,
    spec_key: str,
    left_out: str = "",
    replaces: str = "",
    because: str = "",
    fleet: str = "",
    name: str,
    is_active: bool = False,
) -> Manifest:
    """Return the object.

    Args:
        job: the owner.
        plan: the decision.
        key: digest of everything that it was made from.
        spec_key: digest of the planning fields among that.
        left_out: nodes that it could not be made with, in words.
        replaces: the plan that it takes the place of, if the job runs by one.
        because: why it takes it, in words.
        fleet: digest of the fleet that it was made for.
        name: what it is called, after what it was made from.
        is_active: whether the job runs by it from now on.
    """
    return {
        "apiVersion": API_VERSION,
        "kind": "HetRLPlan",
        "metadata": {
            "name": name,
            "namespace": job.namespace,
            "labels": of_child(job.name, job.uid),
            "annotations": {PLANNED_FOR: spec_key, PLAN_KEY: key}
            | ({LEFT_OUT: left_out} if left_out else {})
            | ({REPLACES: replaces, REPLACES_BECAUSE: because} if replaces else {})
            | ({FLEET_HASH: fleet} if fleet else {})
            | ({ACTIVE_FOR: job.name} if is_active else {}),
            "ownerReferences": [owner_of(job)],
        },
        "spec": from_plan(plan).model_dump(mode="json", by_alias=True, exclude_none=True),
    }
