"""A team's work with plans on a real API server: read, approved, kept and returned to."""

from itertools import pairwise

import pytest

from hetrl_operator.model.labels import ACTIVE_FOR, PLANNED_FOR, REPLACED_BECAUSE
from hetrl_operator.model.reasons import ConditionType, EventReason, Reason
from tests.controller.api_server import (
    ONLY_PLANNED,
    followed,
    naming,
    scale,
    start,
    tells,
    uids,
    write_plan,
)
from tests.controller.operator_process import Namespace, a_job, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def annotations(space: Namespace, plan: str) -> dict[str, str]:
    found: dict[str, str] = space.get("hetrlplan", plan)["metadata"].get("annotations", {})
    return found


def listed(space: Namespace) -> dict[str, list[str]]:
    """What ``kubectl get`` says of plans: its columns by name."""
    text = space.cluster.kubectl("get", "-n", space.name, "hetrlplans")
    head, *rows = text.splitlines()
    assert head.split()[:5] == ["NAME", "JOB", "ACTIVE", "FOR", "STRATEGY"]
    starts = [head.index(each) for each in ("NAME", "JOB", "ACTIVE FOR", "STRATEGY", "GPUS")]
    cut = [[row[first:last].strip() for first, last in pairwise(starts)] for row in rows]
    return {name: columns for name, *columns in cut}


def test_plan_is_read_edited_approved_and_run_by(space: Namespace) -> None:
    space.apply(a_job(planning=ONLY_PLANNED))
    space.wait_for_phase("Planned")
    proposed = followed(space)
    assert listed(space)[proposed][:2] == ["sums", ""]

    space.patch({"planning": naming("approved")})
    missing = space.wait_for_reason(ConditionType.PLANNED, Reason.PLAN_NOT_FOUND)
    assert "HetRLPlan approved does not exist" in missing["message"]
    spec = space.get("hetrlplan", proposed)["spec"]
    for group in spec["groups"]:
        if "ActorGeneration" in group["tasks"]:
            group["concurrency"] = 3
    write_plan(space, "approved", spec)
    space.wait_for_phase("Running")

    assert followed(space) == "approved"
    eventually(lambda: annotations(space, "approved").get(ACTIVE_FOR), what="it is active")
    assert listed(space)["approved"][:2] == ["", "sums"]
    assert "ownerReferences" not in space.get("hetrlplan", "approved")["metadata"]

    space.cluster.kubectl("delete", "-n", space.name, "hetrljob", "sums", "--timeout=120s")
    eventually(lambda: ACTIVE_FOR not in annotations(space, "approved"), what="no job runs by it")
    assert space.get("hetrlplan", "approved")["spec"] == spec
    eventually(lambda: space.names("hetrlplans") == [], what="the job's own plan is gone")


def test_plan_that_does_not_fit_says_by_which_field(space: Namespace) -> None:
    space.apply(a_job(planning=ONLY_PLANNED))
    space.wait_for_phase("Planned")
    proposed = followed(space)
    spec = space.get("hetrlplan", proposed)["spec"]
    before = spec["groups"][0]["stageLayers"]
    spec["groups"][0]["stageLayers"] = [sum(before) + 4]
    write_plan(space, "edited", spec)

    space.patch({"planning": naming("edited")})

    found = space.wait_for_reason(ConditionType.PLANNED, Reason.PLAN_DOES_NOT_FIT)
    assert "spec.groups[0].stageLayers must sum to the model's 3 layers, got 7" in found["message"]
    assert "stageLayers" in tells(space, EventReason.PLAN_INFEASIBLE)
    assert not space.names("statefulsets")

    space.patch({"planning": naming(proposed)})
    space.wait_for_phase("Running")
    assert followed(space) == proposed


def test_plans_of_the_past_are_kept_and_gone_back_to(space: Namespace) -> None:
    before = start(space, resources={}, rollout={"replicas": 2})
    first = followed(space)

    scale(space, 3)
    eventually(lambda: len(uids(space, "-rollout-")) == 3, what="a third rollout")
    space.wait_for_phase("Running")
    second = followed(space)
    eventually(lambda: PLANNED_FOR not in annotations(space, first), what="the first is past")

    assert set(space.names("hetrlplans")) == {first, second}
    assert "2 -> 3 rollout pods" in annotations(space, first)[REPLACED_BECAUSE]
    assert {name: row[1] for name, row in listed(space).items()} == {first: "", second: "sums"}

    space.patch({"rollout": {"replicas": 2}, "planning": naming(first)})
    eventually(lambda: followed(space) == first, what="the first plan is followed again")
    eventually(lambda: len(uids(space, "-rollout-")) == 2, what="two rollouts")
    space.wait_for_phase("Running")
    assert before.items() <= uids(space).items()
    eventually(lambda: annotations(space, first).get(ACTIVE_FOR), what="it is active")
    assert PLANNED_FOR not in annotations(space, second)
