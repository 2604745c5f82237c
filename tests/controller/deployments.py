"""Deployments of a job, and what is rendered of them."""

from typing import Any

from hetrl_core.plan.pod_sets import pod_sets
from hetrl_core.task import Role
from hetrl_operator.model.actions import Manifest
from hetrl_operator.render import Deployment, children
from tests.controller.values import SETTINGS, a_job, a_plan, a_plan_seen, parsed_of


def a_deployment(**changes: Any) -> Deployment:
    plan = changes.pop("plan", a_plan())
    running = changes.pop("running", frozenset(Role))
    job = a_job(**changes)
    return Deployment(
        job=job,
        parsed=parsed_of(job),
        plan=a_plan_seen(job, plan),
        sets=pod_sets(plan),
        running=running,
        settings=SETTINGS,
    )


def of_kind(manifests: tuple[Manifest, ...], kind: str) -> dict[str, Any]:
    found = {each["metadata"]["name"]: each for each in manifests if each["kind"] == kind}
    assert found
    return found


def pod_of(deployment: Deployment, name: str) -> dict[str, Any]:
    sets = of_kind(children(deployment), "StatefulSet")
    template: dict[str, Any] = sets[f"math-{name}"]["spec"]["template"]
    return template


def container_of(deployment: Deployment, name: str) -> dict[str, Any]:
    (container,) = pod_of(deployment, name)["spec"]["containers"]
    return dict(container)


TRAINER, ROLLOUT, INFERENCE = "trainer-a100-80gb-0", "rollout-l4-0", "inference-l4-0"
APART = a_plan(inference=("l4-8", "l4-9"))
"""A plan whose reference model has GPUs of its own."""
