"""Manifests: the same from the same, each with its digest, name and owner."""

from dataclasses import replace
from typing import Any

import pytest

from hetrl_api.job.status import JobStatus, Phase
from hetrl_core.plan.pod_sets import pod_sets
from hetrl_core.task import Role
from hetrl_operator.model.labels import FIELDS_HASH, SPEC_HASH, child_name
from hetrl_operator.render import Deployment, children, digests
from hetrl_operator.render.restart import restart_hash
from tests.controller.deployments import a_deployment
from tests.controller.values import SETTINGS, a_job, a_plan, a_plan_seen, parsed_of


def signed(deployment: Deployment) -> dict[tuple[str, str], str]:
    return {
        (each["kind"], each["metadata"]["name"]): each["metadata"]["annotations"][SPEC_HASH]
        for each in children(deployment)
    }


def test_manifests_depend_on_input_alone() -> None:
    assert children(a_deployment()) == children(a_deployment())


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"plan": a_plan(trainers=2)}, id="plan"),
        pytest.param({"training": {"steps": 11}}, id="contract"),
        pytest.param({"running": frozenset[Role]()}, id="replicas"),
    ],
)
def test_digest_tells_changed_manifests_from_unchanged_ones(changes: dict[str, Any]) -> None:
    assert signed(a_deployment()) != signed(a_deployment(**changes))


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        pytest.param({"running": frozenset[Role]()}, False, id="replicas"),
        pytest.param({"plan": a_plan(rollouts=("l4-0",))}, False, id="fewer pods"),
        pytest.param({"runtime": {"podTemplate": {"labels": {"a": "b"}}}}, True, id="a label"),
        pytest.param(
            {"runtime": {"podTemplate": {"env": [{"name": "A", "value": "1"}]}}},
            True,
            id="an item of a list",
        ),
    ],
)
def test_digest_of_fields_tells_manifests_with_other_fields(
    changes: dict[str, Any], *, differs: bool
) -> None:
    def of_rollouts(deployment: Deployment) -> str:
        last = children(deployment)[-1]
        return str(last["metadata"]["annotations"][FIELDS_HASH])

    assert (of_rollouts(a_deployment()) != of_rollouts(a_deployment(**changes))) is differs


OTHER_SETTINGS = replace(SETTINGS, pull_policy="Always")
JOB = a_deployment().job


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"job": replace(JOB, namespace="elsewhere")}, id="namespace"),
        pytest.param({"job": replace(JOB, name="other")}, id="name"),
        pytest.param({"job": replace(JOB, uid="another")}, id="uid"),
        pytest.param({"parsed": parsed_of(a_job(training={"steps": 11}))}, id="spec"),
        pytest.param(
            {"plan": replace(a_plan_seen(JOB, a_plan(trainers=2)), uid="another")}, id="plan"
        ),
        pytest.param({"plan": replace(a_deployment().plan, key="f" * 32)}, id="plan's key"),
        pytest.param({"sets": pod_sets(a_plan(rollouts=("l4-0",)))}, id="pod sets"),
        pytest.param({"running": frozenset({Role.COORDINATOR})}, id="roles that run"),
        pytest.param({"settings": OTHER_SETTINGS}, id="settings"),
    ],
)
def test_remembered_digests_are_those_of_the_manifests(changes: dict[str, Any]) -> None:
    first = a_deployment()
    second = replace(first, **changes)

    for each in (first, second, first):
        assert digests(each).objects == signed(each)
        assert digests(each).restarts == {pods.name: restart_hash(each, pods) for pods in each.sets}
    assert digests(first) != digests(second)


def test_changed_status_does_not_compute_digests_again() -> None:
    deployment = a_deployment()
    later = replace(deployment, job=replace(deployment.job, status=JobStatus(phase=Phase.RUNNING)))

    assert digests(later) is digests(deployment)


def test_objects_go_with_their_job() -> None:
    for manifest in children(a_deployment()):
        (owner,) = manifest["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("HetRLJob", "uid-1", True)


def test_names_stay_within_what_labels_hold() -> None:
    longest = child_name("j" * 40, "rollout-a100-80gb-12")

    assert len(longest) <= 52
    assert longest != child_name("j" * 40, "rollout-a100-80gb-13")
    assert child_name("math", "coordinator") == "math-coordinator"


def test_job_of_the_longest_name_keeps_every_object_apart() -> None:
    deployment = a_deployment()
    job = replace(deployment.job, name="j" * 40)

    made = children(replace(deployment, job=job))

    places = [(each["kind"], each["metadata"]["name"]) for each in made]
    assert len(set(places)) == len(places)
