"""A job's status on a real API server: conditions, reasons and events."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from e2e.cluster.build import program
from e2e.cluster.errors import CommandFailedError
from hetrl_operator.model.reasons import EventReason, Reason
from tests.controller.api_server import (
    conditions,
    events,
    not_ready,
    pod_of,
    report,
    start,
    tells,
    uids,
)
from tests.controller.operator_process import Namespace, OperatorProcess, a_job, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_job_says_what_holds_from_its_plan_to_its_end(
    space: Namespace, operator: OperatorProcess
) -> None:
    start(space)
    # It runs with one rollout already; the other may be a moment later.
    space.wait_for_reason("RolloutReady", Reason.ALL_READY)
    expected = {
        "Accepted": ("True", Reason.VALID),
        "Planned": ("True", Reason.PLAN_READY),
        "ResourcesCreated": ("True", Reason.CHILDREN_APPLIED),
        "TrainerReady": ("True", Reason.ALL_READY),
        "RolloutReady": ("True", Reason.ALL_READY),
        "Running": ("True", Reason.TRAINING_IN_PROGRESS),
        "Progressing": ("True", Reason.WAITING_FOR_STEP),
        "Degraded": ("True", Reason.CHECKPOINTS_NOT_DURABLE),
    }
    found = {each["type"]: (each["status"], each["reason"]) for each in conditions(space)}
    assert found == expected

    report(space, operator)
    space.wait_for_reason("Progressing", Reason.STEP_ADVANCED)
    assert space.job()["status"]["progress"]["lastStepTime"]
    report(
        space,
        operator,
        step="10",
        finished=True,
        outcome="Succeeded",
        reason="AllStepsDone",
        message="10 steps are done",
    )

    space.wait_for_reason("Complete", Reason.ALL_STEPS_DONE)
    assert space.condition("Running")["reason"] == Reason.FINISHED
    for each in (
        EventReason.PLAN_STARTED,
        EventReason.PLAN_SUCCEEDED,
        EventReason.GANG_STARTED,
        EventReason.RUNNING,
        EventReason.COMPLETED,
    ):
        assert len(events(space, each)) == 1, each


def test_job_with_durable_checkpoints_is_as_planned(space: Namespace) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "kept"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "volumeName": f"pv-{space.name}",
            "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"pv-{space.name}"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "1Gi"},
            "storageClassName": "",
            "nfs": {"server": "nowhere.invalid", "path": "/"},
        },
    }
    space.apply(volume)
    space.apply(claim)

    start(space, storage={"checkpoints": {"persistentVolumeClaim": "kept"}})

    space.wait_for_reason("Degraded", Reason.AS_PLANNED)


def test_job_without_steps_stalls_and_nothing_else_happens(space: Namespace) -> None:
    before = start(space, progressDeadlineSeconds=2)

    stalled = space.wait_for_reason("Progressing", Reason.STALLED)

    assert stalled["status"] == "False"
    assert "spec.progressDeadlineSeconds (2 s)" in stalled["message"]
    assert tells(space, EventReason.STALLED)
    assert space.phase() == "Running"
    assert uids(space) == before


@pytest.mark.parametrize(
    ("waiting", "reason"),
    [
        pytest.param("ImagePullBackOff", Reason.IMAGE_PULL_ERROR, id="image"),
        pytest.param("CrashLoopBackOff", Reason.CRASH_LOOP, id="crash-loop"),
        pytest.param("ContainerCreating", Reason.STARTING, id="starting"),
    ],
)
def test_trainer_that_is_not_ready_says_why(space: Namespace, waiting: str, reason: str) -> None:
    start(space)

    not_ready(space, pod_of(space, "trainer"), waiting)

    assert space.wait_for_reason("TrainerReady", reason)["status"] == "False"
    assert space.wait_for_reason("Running", Reason.NOT_READY)["status"] == "False"
    assert space.phase() == "Restarting"


def test_rollouts_can_be_enough_though_not_all_are_ready(space: Namespace) -> None:
    start(space, rollout={"replicas": 2})

    not_ready(space, pod_of(space, "rollout"), "ContainerCreating")

    assert space.wait_for_reason("RolloutReady", Reason.MIN_READY)["status"] == "True"
    assert space.condition("Degraded")["reason"] == Reason.ROLLOUT_BELOW_DESIRED
    sets = {each["role"]: each for each in space.job()["status"]["podSets"]}
    assert (sets["rollout"]["replicas"], sets["rollout"]["readyReplicas"]) == (2, 1)


def test_rollout_that_no_node_takes_is_reported(space: Namespace) -> None:
    template = {"resources": {"rollout": {"memory": "9000Gi"}}}
    space.apply(a_job(runtime={"engine": "transformers", "podTemplate": template}))

    found = space.wait_for_reason("RolloutReady", Reason.UNSCHEDULABLE)

    assert found["status"] == "False"
    assert space.condition("Running")["reason"] == Reason.STARTING


def test_short_lived_states_are_written_too(space: Namespace) -> None:
    with watching(space) as seen:
        # The watch must be there before the job: states that pass are not listed later.
        space.apply(a_job("first", suspend=True))
        eventually(lambda: Reason.SUSPENDED in seen(), what="the watch shows a job")
        start(space)

        eventually(
            lambda: seen() >= {Reason.PLANNING, Reason.APPLYING, Reason.TRAINING_IN_PROGRESS},
            what="every step of the start was written",
        )


def test_unsupported_job_is_announced(space: Namespace) -> None:
    space.apply(a_job(model={"source": {"hub": "owner/name"}}))

    assert "spec.model.architecture is required" in tells(space, EventReason.INVALID_SPEC)


def a_quota(**hard: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "small"},
        "spec": {"hard": {name.replace("_", "/"): limit for name, limit in hard.items()}},
    }


def test_pods_that_cannot_be_made_are_missed(space: Namespace) -> None:
    space.apply(a_quota(pods="0"))
    space.apply(a_job())

    missed = space.wait_for_reason("TrainerReady", Reason.NO_PODS)

    assert missed["status"] == "False"
    space.cluster.kubectl("delete", "-n", space.name, "resourcequota", "small")


@pytest.mark.parametrize("reason", [Reason.FORBIDDEN, Reason.QUOTA_EXCEEDED, Reason.APPLY_FAILED])
def test_refused_object_is_reported_with_the_reason(space: Namespace, reason: str) -> None:
    with refusing_services(space, reason):
        space.apply(a_job())

        created = space.wait_for_reason("ResourcesCreated", reason)

        assert "Service sums" in created["message"]
        assert "Service sums" in tells(space, EventReason.FAILED_TO_APPLY)
    space.wait_for_phase("Running")


@contextmanager
def refusing_services(space: Namespace, reason: str) -> Iterator[None]:
    """Have the API server refuse the Services of a namespace, as its owners may."""
    if reason == Reason.QUOTA_EXCEEDED:
        space.apply(a_quota(count_services="0"))
        yield
        space.cluster.kubectl("delete", "-n", space.name, "resourcequota", "small")
        return
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": space.name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["services"],
                    }
                ]
            },
            "validations": [
                {
                    "expression": "false",
                    "message": "not here",
                    "reason": "Forbidden" if reason == Reason.FORBIDDEN else "Invalid",
                }
            ],
        },
    }
    binding = {
        "apiVersion": policy["apiVersion"],
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": space.name},
        "spec": {
            "policyName": space.name,
            "validationActions": ["Deny"],
            "matchResources": {
                "namespaceSelector": {
                    "matchLabels": {"kubernetes.io/metadata.name": space.name},
                }
            },
        },
    }
    space.cluster.apply(yaml.safe_dump_all([policy, binding]))
    eventually(lambda: _is_refused(space), what="the policy applies")
    try:
        yield
    finally:
        kinds = "validatingadmissionpolicy,validatingadmissionpolicybinding"
        space.cluster.kubectl("delete", kinds, space.name)


def _is_refused(space: Namespace) -> bool:
    try:
        space.cluster.kubectl(
            "create",
            "-n",
            space.name,
            "service",
            "externalname",
            "probe",
            "--dry-run=server",
            "--external-name=example.com",
        )
    except CommandFailedError:
        return True
    return False


@contextmanager
def watching(space: Namespace) -> Iterator[Callable[[], set[str]]]:
    """Collect the reasons of every status that a job ever shows."""
    lines: list[str] = []
    with subprocess.Popen(
        [
            program("kubectl"),
            "get",
            "-n",
            space.name,
            "hetrljobs",
            "--watch",
            "--output",
            "jsonpath={.status.conditions[*].reason}{'\\n'}",
        ],
        env={**os.environ, "KUBECONFIG": str(space.cluster.kubeconfig)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        reader = threading.Thread(target=lines.extend, args=(process.stdout,), daemon=True)
        reader.start()
        try:
            yield lambda: {word for line in lines for word in line.split()}
        finally:
            process.terminate()
            reader.join()


@pytest.mark.parametrize(
    ("reason", "trouble", "seed"),
    [
        pytest.param(Reason.SOLVER_TIMEOUT, signal.SIGSTOP, 1001, id="it hangs"),
        pytest.param(Reason.PLANNER_FAILED, signal.SIGKILL, 1002, id="the system kills it"),
    ],
)
def test_planner_error_is_reported_and_retried(
    space: Namespace, operator: OperatorProcess, reason: str, trouble: signal.Signals, seed: int
) -> None:
    # What was asked before is not put to the planner at all.
    space.apply(a_job("warm", planning={"mode": "PlanOnly", "seed": seed}))
    space.wait_for_phase("Planned", "warm")
    planner = operator.planner_pid()
    # One that goes on might answer before anybody sees that it was asked.
    os.kill(planner, signal.SIGSTOP)
    space.apply(a_job(planning={"timeBudgetSeconds": 1, "seed": seed}))
    space.wait_for_reason("Planned", Reason.PLANNING)
    os.kill(planner, trouble)

    found = space.wait_for_reason("Planned", reason)
    assert found["status"] == "False"
    assert found["message"] in tells(space, EventReason.PLAN_INFEASIBLE)
    assert "tried again at" in found["message"]
    if trouble == signal.SIGKILL:
        space.wait_for_reason("Planned", Reason.PLAN_READY)
