"""The pod that checks a job, on a real API server; the tests write its end as a kubelet does."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from hetrl_core.preflight import PreflightReport, report_to_json
from hetrl_operator.model.reasons import Reason
from tests.controller.operator_process import (
    Namespace,
    OperatorProcess,
    a_job,
    eventually,
)
from tests.controller.values import a_job as a_parsed_job

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

POD = "sums-preflight"
PLAN_ONLY = {"mode": "PlanOnly", "timeBudgetSeconds": 1}


@pytest.fixture(scope="module", autouse=True)
def _preflights(operator: OperatorProcess) -> Iterator[None]:
    """Let the operator check jobs while these tests run."""
    operator.stop()
    operator.start(HETRL_PREFLIGHT="true")
    yield
    operator.stop()
    operator.start(HETRL_PLANNER_GRACE_SECONDS="10")


def start_preflight(space: Namespace, **spec: Any) -> dict[str, Any]:
    """Create a job that names a model only, and return the pod that checks it."""
    space.apply(a_job(model={"source": {"hub": "owner/name"}}, **spec))
    space.wait_for_reason("Planned", Reason.CHECKING)
    return eventually(lambda: space.get("pods")["items"], what="a preflight pod")[0]


def end(space: Namespace, message: str) -> None:
    """Let the pod end with a termination message."""

    def statuses() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = space.get("pod", POD)["status"].get("containerStatuses", [])
        return found

    at = "2026-01-31T12:00:00Z"
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at}
    state = {"ready": False, "state": {"terminated": ended | {"message": message}}}
    ends = [each | state for each in eventually(statuses, what="the pod runs")]
    text = json.dumps({"status": {"phase": "Succeeded", "containerStatuses": ends}})
    options = ("--subresource=status", "--type=merge", "-p", text)
    space.cluster.kubectl("patch", "-n", space.name, "pod", POD, *options)


def test_job_that_names_a_hub_model_is_planned_once_checked(space: Namespace) -> None:
    pod = start_preflight(space, planning=PLAN_ONLY)
    assert pod["metadata"]["name"] == POD
    assert pod["metadata"]["ownerReferences"][0]["kind"] == "HetRLJob"
    known = a_parsed_job().parsed
    assert known
    report = PreflightReport(
        passed=True, notes=("12 of 7,473 prompts",), architecture=known.spec.model.architecture
    )

    end(space, report_to_json(report))

    space.wait_for_reason("Planned", Reason.PLAN_READY)
    eventually(lambda: not space.get("pods")["items"], what="the preflight pod is gone")
    assert space.job()["status"]["preflight"]["notes"] == ["12 of 7,473 prompts"]
    assert space.job()["status"]["preflight"]["architecture"]["layers"] == 3


def test_job_whose_preflight_fails_gets_no_gpus(space: Namespace) -> None:
    start_preflight(space)
    text = "model.safetensors lacks lm_head.weight"

    end(space, report_to_json(PreflightReport(passed=False, reason="ModelInvalid", message=text)))

    assert space.wait_for_reason("Failed", "ModelInvalid")["message"] == text
    eventually(lambda: not space.get("pods")["items"], what="the preflight pod is gone")
    assert space.get("statefulsets")["items"] == []


def test_preflight_that_never_reports_fails_after_its_last_attempt(space: Namespace) -> None:
    start_preflight(space)
    assert space.condition("Planned")["reason"] == Reason.CHECKING
    for _ in range(2):
        before = uid_of_pod(space)
        end(space, "Killed")
        await_another(space, before)

    end(space, "Killed")

    assert "Killed" in space.wait_for_reason("Failed", Reason.PREFLIGHT_FAILED)["message"]


def uid_of_pod(space: Namespace) -> str:
    return next((str(each["metadata"]["uid"]) for each in space.get("pods")["items"]), "")


def await_another(space: Namespace, uid: str) -> None:
    eventually(lambda: uid_of_pod(space) not in {"", uid}, what="another preflight pod")
