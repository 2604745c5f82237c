"""Conditions, reasons and deadlines of a job's life, each reached on a real API server.

Nodes are kwok's; where a kubelet would say something, its words are written as it writes them.
``reasons`` says which test reaches what.
"""

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.cluster import Cluster
from e2e.cluster.machines import evenly
from hetrl_operator.labels import EventReason, Reason
from tests.controller.operator_process import (
    Namespace,
    OperatorProcess,
    a_job,
    eventually,
    namespace_of,
)

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

CRDS = Path(__file__).parents[2] / "crds"
COORDINATOR = "sums-coordinator-0"
L4 = {"pools": [{"name": "l4", "gpuProduct": "L4"}]}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster.start(name=f"life-{os.getpid()}", fake_nodes=evenly(6)) as found:
        found.kubectl("apply", "--server-side", "-f", str(CRDS))
        found.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(CRDS))
        yield found


@pytest.fixture(scope="module")
def operator(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    process = OperatorProcess(cluster, tmp_path_factory.mktemp("operator"))
    process.start()
    yield process
    assert process.stop() == 0
    log = process.log.read_text()
    assert "Traceback" not in log, log[-5000:]


@pytest.fixture
def space(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Namespace]:
    request.getfixturevalue("operator")
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_"))[:50].strip("-")
    with namespace_of(cluster, name) as found:
        yield found


def start(space: Namespace, **spec: Any) -> dict[str, str]:
    """Have a job run, and return its pods' uids by name."""
    space.apply(a_job(**spec))
    space.wait_for_phase("Running")
    return uids(space)


def uids(space: Namespace, word: str = "") -> dict[str, str]:
    names = {each["metadata"]["name"]: each["metadata"] for each in space.get("pods")["items"]}
    return {name: each["uid"] for name, each in names.items() if word in name}


def pod_of(space: Namespace, role: str) -> str:
    return min(uids(space, f"-{role}-"))


def events(space: Namespace, reason: str) -> list[str]:
    found = space.get("events", f"--field-selector=reason={reason}")["items"]
    return [each["message"] for each in found]


def tells(space: Namespace, reason: str) -> str:
    """Wait for an event, and return its message."""
    return eventually(lambda: events(space, reason), what=f"event {reason}")[0]


def report(space: Namespace, operator: OperatorProcess, **said: Any) -> None:
    token = space.token_of(COORDINATOR)
    body = {"step": "4", "total_steps": "10", "version": "4", **said}
    assert operator.post_progress(space.name, "sums", token, body) == 204


def say(space: Namespace, pod: str, **status: Any) -> None:
    """Write a pod's status as its kubelet would."""
    text = json.dumps({"status": status})
    space.cluster.kubectl(
        "patch", "-n", space.name, "pod", pod, "--subresource=status", "--type=merge", "-p", text
    )


def not_ready(space: Namespace, pod: str, waiting: str) -> None:
    """Say that a container waits, and why."""
    status = space.get("pod", pod)["status"]
    container = {
        **status["containerStatuses"][0],
        "ready": False,
        "state": {"waiting": {"reason": waiting, "message": "as a kubelet says it"}},
    }
    conditions = [
        {**each, "status": "False"} if each["type"] in {"Ready", "ContainersReady"} else each
        for each in status["conditions"]
    ]
    say(space, pod, containerStatuses=[container], conditions=conditions)


def old_enough_to_fail() -> None:
    """Let the second pass in which pods were made: their times have no fractions."""
    time.sleep(1.1)


def test_a_job_says_what_holds_from_its_plan_to_its_end(
    space: Namespace, operator: OperatorProcess
) -> None:
    start(space)
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
        space, operator, step="10", finished=True, outcome="Succeeded", reason="AllStepsDone",
        message="10 steps are done",
    )  # fmt: skip

    space.wait_for_reason("Complete", Reason.ALL_STEPS_DONE)
    assert space.condition("Running")["reason"] == Reason.FINISHED
    for each in (
        EventReason.PLAN_STARTED, EventReason.PLAN_SUCCEEDED, EventReason.GANG_STARTED,
        EventReason.RUNNING, EventReason.COMPLETED,
    ):  # fmt: skip
        assert len(events(space, each)) == 1, each


def conditions(space: Namespace) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = space.job()["status"]["conditions"]
    return found


def test_a_job_with_durable_checkpoints_is_as_planned(space: Namespace) -> None:
    claim = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "kept"},
        "spec": {"accessModes": ["ReadWriteMany"], "volumeName": f"pv-{space.name}",
                 "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}},
    }  # fmt: skip
    volume = {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"pv-{space.name}"},
        "spec": {"accessModes": ["ReadWriteMany"], "capacity": {"storage": "1Gi"},
                 "storageClassName": "", "nfs": {"server": "nowhere.invalid", "path": "/"}},
    }  # fmt: skip
    space.apply(volume)
    space.apply(claim)

    start(space, storage={"checkpoints": {"persistentVolumeClaim": "kept"}})

    assert space.condition("Degraded")["reason"] == Reason.AS_PLANNED


def test_a_job_without_steps_stalls_and_nothing_else_happens(space: Namespace) -> None:
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
def test_a_trainer_that_is_not_ready_says_why(space: Namespace, waiting: str, reason: str) -> None:
    start(space)

    not_ready(space, pod_of(space, "trainer"), waiting)

    assert space.wait_for_reason("TrainerReady", reason)["status"] == "False"
    assert space.wait_for_reason("Running", Reason.NOT_READY)["status"] == "False"
    assert space.phase() == "Restarting"


def test_enough_rollouts_are_ready_though_not_all(space: Namespace) -> None:
    start(space, rollout={"replicas": 2})

    not_ready(space, pod_of(space, "rollout"), "ContainerCreating")

    assert space.wait_for_reason("RolloutReady", Reason.MIN_READY)["status"] == "True"
    assert space.condition("Degraded")["reason"] == Reason.ROLLOUT_BELOW_DESIRED
    sets = {each["role"]: each for each in space.job()["status"]["podSets"]}
    assert (sets["rollout"]["replicas"], sets["rollout"]["readyReplicas"]) == (2, 1)


def test_a_rollout_that_stays_stuck_is_replaced_while_the_others_go_on(space: Namespace) -> None:
    before = start(space, rollout={"replicas": 2}, startupDeadlineSeconds=3)
    stuck = pod_of(space, "rollout")

    not_ready(space, stuck, "ContainerCreating")

    eventually(lambda: uids(space).get(stuck, before[stuck]) != before[stuck], what="another pod")
    space.wait_for_phase("Running")
    assert {name for name, uid in uids(space).items() if before.get(name) != uid} == {stuck}
    assert "startupDeadlineSeconds" in tells(space, EventReason.POD_REPLACED)


def test_a_run_longer_than_its_deadline_fails_and_frees_its_gpus(space: Namespace) -> None:
    start(space, activeDeadlineSeconds=6)

    failed = space.wait_for_reason("Failed", Reason.DEADLINE_EXCEEDED)

    assert "spec.activeDeadlineSeconds (6 s)" in failed["message"]
    eventually(lambda: not space.get("pods")["items"], what="the pods are gone")
    assert space.job()["metadata"].get("finalizers", []) == []
    assert tells(space, EventReason.FAILED)


@pytest.mark.parametrize("what", ["plan", "node"])
def test_waiting_for_gpus_has_a_deadline_of_its_own(space: Namespace, what: str) -> None:
    limits = {"unschedulableDeadlineSeconds": 4, "startupDeadlineSeconds": 86400}
    if what == "plan":
        space.apply(a_job(resources={"pools": [{"name": "x", "gpuProduct": "H100"}]}, **limits))
    else:
        # The coordinator needs no GPU, but more memory than any node has.
        template = {"resources": {"coordinator": {"memory": "9000Gi"}}}
        space.apply(a_job(runtime={"engine": "transformers", "podTemplate": template}, **limits))

    failed = space.wait_for_reason("Failed", Reason.UNSCHEDULABLE_DEADLINE_EXCEEDED)

    waited = "it waited for: a plan" if what == "plan" else f"{COORDINATOR}: Unschedulable"
    assert waited in failed["message"]
    eventually(lambda: not space.get("pods")["items"], what="the pods are gone")


def test_a_rollout_that_no_node_takes_says_so(space: Namespace) -> None:
    template = {"resources": {"rollout": {"memory": "9000Gi"}}}
    space.apply(a_job(runtime={"engine": "transformers", "podTemplate": template}))

    found = space.wait_for_reason("RolloutReady", Reason.UNSCHEDULABLE)

    assert found["status"] == "False"
    assert space.condition("Running")["reason"] == Reason.STARTING


def test_a_finished_job_is_deleted_when_its_time_is_over(
    space: Namespace, operator: OperatorProcess
) -> None:
    start(space, ttlSecondsAfterFinished=2)

    report(space, operator, finished=True, outcome="Succeeded", reason="AllStepsDone")

    eventually(lambda: not space.get("hetrljobs")["items"], what="the job is gone")
    assert tells(space, EventReason.TTL_EXPIRED)
    kinds = "statefulsets,services,configmaps,secrets,hetrlplans,pods"
    eventually(lambda: space.names(kinds) == [], what="nothing of the job is left")


@pytest.mark.parametrize(
    ("policy", "role", "code", "again"),
    [
        pytest.param({"role": "trainer", "action": "RestartPod"}, "trainer", 1, "", id="pod"),
        pytest.param(
            {"role": "rollout", "action": "RestartRole", "onExitCodes": [7]}, "rollout", 7,
            "-rollout-", id="role",
        ),
        pytest.param(
            {"role": "coordinator", "action": "RestartJob"}, "coordinator", 1, "sums", id="job"
        ),
    ],
)  # fmt: skip
def test_a_failure_restarts_what_its_rule_says(
    space: Namespace, policy: dict[str, Any], role: str, code: int, again: str
) -> None:
    before = start(space, rollout={"replicas": 2}, failurePolicy={"rules": [policy]})
    old_enough_to_fail()
    meant = {name for name in before if again and again in name}

    space.end_container(pod_of(space, role), exit_code=code, message="CUDA error")

    recorded = eventually(lambda: space.job()["status"].get("recentRestarts"), what="a record")
    assert recorded[0]["action"] == policy["action"]
    eventually(
        lambda: (
            {name for name, uid in before.items() if uids(space).get(name, uid) != uid} == meant
            and uids(space).keys() == before.keys()
        ),
        what=f"{meant} are other pods",
    )
    if meant:
        space.wait_for_phase("Running")
        name = EventReason.JOB_RESTARTED if again == "sums" else EventReason.ROLE_RESTARTED
        assert "CUDA error" in tells(space, name)


def test_a_rule_fails_the_job_for_an_exit_code(space: Namespace) -> None:
    rule = {"name": "no-data", "role": "trainer", "action": "Fail", "onExitCodes": [42]}
    start(space, failurePolicy={"rules": [rule]})

    space.end_container(pod_of(space, "trainer"), exit_code=42, message="no rows left")

    failed = space.wait_for_reason("Failed", Reason.FAILURE_POLICY)
    assert "no-data of spec.failurePolicy.rules" in failed["message"]
    assert "no rows left" in failed["message"]


def test_more_restarts_than_allowed_fail_the_job(space: Namespace) -> None:
    start(space, failurePolicy={"maxRestarts": 0, "windowSeconds": 600})
    old_enough_to_fail()

    space.end_container(pod_of(space, "trainer"), exit_code=1, message="CUDA out of memory")

    failed = space.wait_for_reason("Failed", Reason.BACKOFF_LIMIT_EXCEEDED)
    assert "1 restarts within 600 s, spec.failurePolicy.maxRestarts is 0" in failed["message"]


@pytest.mark.parametrize(
    ("role", "reason"),
    [
        pytest.param("rollout", Reason.ROLLOUT_FAILED, id="rollout"),
        pytest.param("coordinator", Reason.COORDINATOR_FAILED, id="coordinator"),
    ],
)
def test_a_process_that_gives_up_names_its_role(space: Namespace, role: str, reason: str) -> None:
    start(space)

    space.end_container(pod_of(space, role), exit_code=3, message="cannot go on")

    assert "cannot go on" in space.wait_for_reason("Failed", reason)["message"]


def test_a_coordinator_says_that_there_is_nothing_to_learn(space: Namespace) -> None:
    start(space)

    space.end_container(COORDINATOR, exit_code=3, message="NoLearningSignal: rewards never vary")

    space.wait_for_reason("Failed", Reason.NO_LEARNING_SIGNAL)


def test_a_deleted_job_stops_its_trainers_first_and_then_goes(space: Namespace) -> None:
    start(space)
    trainer = pod_of(space, "trainer")
    hold_back(space, trainer)
    assert space.job()["metadata"]["finalizers"] == ["hetrl.dev/release"]

    space.cluster.kubectl("delete", "-n", space.name, "hetrljob", "sums", "--wait=false")

    space.wait_for_reason("Running", Reason.DELETING)
    eventually(lambda: is_stopping(space, trainer), what="the trainer stops")
    assert COORDINATOR in uids(space)
    assert not is_stopping(space, COORDINATOR)
    let_go(space, trainer)
    eventually(lambda: not space.get("hetrljobs")["items"], what="the job is gone")
    eventually(lambda: not space.get("pods")["items"], what="the pods are gone")


def test_a_deleted_job_is_let_go_at_its_deadline_whatever_is_left(space: Namespace) -> None:
    start(space, releaseDeadlineSeconds=2)
    trainer = pod_of(space, "trainer")
    hold_back(space, trainer)

    space.cluster.kubectl("delete", "-n", space.name, "hetrljob", "sums", "--wait=false")

    eventually(lambda: not space.get("hetrljobs")["items"], what="the job is gone")
    assert trainer in tells(space, EventReason.RELEASE_FORCED)
    let_go(space, trainer)


def hold_back(space: Namespace, pod: str) -> None:
    """Keep a pod from going, as a kubelet does that cannot stop it."""
    _finalizers(space, pod, ["example.com/held"])


def let_go(space: Namespace, pod: str) -> None:
    _finalizers(space, pod, [])


def _finalizers(space: Namespace, pod: str, finalizers: list[str]) -> None:
    text = json.dumps({"metadata": {"finalizers": finalizers}})
    space.cluster.kubectl("patch", "-n", space.name, "pod", pod, "--type=merge", "-p", text)


def is_stopping(space: Namespace, pod: str) -> bool:
    return "deletionTimestamp" in space.get("pod", pod)["metadata"]


def test_suspending_asks_for_a_checkpoint_before_anything_else_stops(space: Namespace) -> None:
    start(space)
    trainer = pod_of(space, "trainer")
    hold_back(space, trainer)

    space.patch({"suspend": True})

    assert space.wait_for_reason("Suspended", Reason.SUSPENDING)["status"] == "False"
    assert COORDINATOR in uids(space)
    let_go(space, trainer)
    space.wait_for_reason("Suspended", Reason.SUSPENDED)
    assert space.condition("Planned")["reason"] == Reason.SUSPENDED
    assert space.job()["metadata"].get("finalizers", []) == []
    space.patch({"suspend": False})
    space.wait_for_phase("Running")
    assert space.condition("Suspended")["reason"] == Reason.RESUMED
    for each in (EventReason.CHECKPOINT_REQUESTED, EventReason.SUSPENDED, EventReason.RESUMED):
        assert len(events(space, each)) == 1, each


def test_scaling_adds_and_removes_rollouts_and_touches_nothing_else(space: Namespace) -> None:
    before = start(space, resources={}, rollout={"replicas": 2})

    scale(space, 4)
    eventually(lambda: len(uids(space, "-rollout-")) == 4, what="four rollouts")
    space.wait_for_phase("Running")
    grown = uids(space)
    assert {name: grown[name] for name in before} == before
    scale(space, 1)
    eventually(lambda: len(uids(space, "-rollout-")) == 1, what="one rollout")

    assert uids(space).items() <= before.items()
    assert space.job()["status"]["rollout"]["replicas"] == 1
    assert {"2 -> 4 rollout pods", "4 -> 1 rollout pods"} <= set(
        events(space, EventReason.SCALED_ROLLOUT)
    )
    assert "the trainer stays" in events(space, EventReason.REPLANNED)[0]


def scale(space: Namespace, replicas: int) -> None:
    space.cluster.kubectl("scale", "-n", space.name, "hetrljob", "sums", f"--replicas={replicas}")


def test_an_autoscaler_moves_the_rollouts_and_the_trainer_stays(space: Namespace) -> None:
    before = start(space, resources={}, rollout={"replicas": 1})
    autoscaler = {
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "rollouts"},
        "spec": {
            "scaleTargetRef": {
                "apiVersion": "hetrl.dev/v1alpha1", "kind": "HetRLJob", "name": "sums",
            },
            "minReplicas": 3, "maxReplicas": 5,
        },
    }  # fmt: skip

    space.apply(autoscaler)

    eventually(lambda: len(uids(space, "-rollout-")) == 3, what="three rollouts")
    assert before.items() <= uids(space).items()
    assert space.job()["spec"]["rollout"]["replicas"] == 3
    space.cluster.kubectl("delete", "-n", space.name, "hpa", "rollouts")


def test_a_number_of_rollouts_that_does_not_fit_changes_nothing_and_says_so(
    space: Namespace,
) -> None:
    before = start(space, resources=L4, rollout={"replicas": 2})

    scale(space, 500)

    drift = space.wait_for_reason("Degraded", Reason.PLAN_DRIFT)
    eventually(
        lambda: "another plan is being made" not in space.condition("Degraded")["message"],
        what="the planner's answer",
    )
    assert drift["status"] == "True"
    assert space.phase() == "Running"
    assert uids(space) == before
    scale(space, 2)
    space.wait_for_reason("Degraded", Reason.CHECKPOINTS_NOT_DURABLE)


@pytest.mark.parametrize(
    ("change", "restarted"),
    [
        pytest.param({"startupDeadlineSeconds": 77}, (), id="in-place"),
        pytest.param(
            {"training": {"steps": 20}}, ("-coordinator-", "-trainer-"), id="from-the-checkpoint"
        ),
        pytest.param(
            {"runtime": {"images": {"rollout": "hetrl/rollout:next"}}}, ("-rollout-",),
            id="rollouts-alone",
        ),
    ],
)  # fmt: skip
def test_a_changed_spec_replaces_the_pods_that_it_concerns(
    space: Namespace, change: dict[str, Any], restarted: tuple[str, ...]
) -> None:
    before = start(space, rollout={"replicas": 2})

    space.patch(change)

    meant = {name for name in before if any(word in name for word in restarted)}
    eventually(
        lambda: (
            {n for n, uid in before.items() if uids(space).get(n, uid) != uid} == meant
            and uids(space).keys() == before.keys()
            and space.condition("Running").get("observedGeneration", 0) > 1
        ),
        what=f"{meant} are other pods",
    )
    space.wait_for_phase("Running")
    assert space.job()["status"]["restarts"] == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param({"model": {"revision": "x"}}, "spec.model", id="model"),
        pytest.param({"data": {"maxPromptTokens": 99}}, "spec.data cannot change", id="data"),
        pytest.param({"algorithm": {"groupSize": 2}}, "spec.algorithm cannot", id="algorithm"),
        pytest.param({"training": {"seed": 2}}, "spec.training.seed cannot change", id="seed"),
        pytest.param(
            {"storage": {"checkpoints": {"persistentVolumeClaim": "other"}}},
            "spec.storage can change only while spec.suspend is true", id="storage",
        ),
    ],
)  # fmt: skip
def test_what_a_run_is_made_of_cannot_change(
    space: Namespace, change: dict[str, Any], said: str
) -> None:
    space.apply(a_job(planning={"mode": "PlanOnly"}))

    with pytest.raises(Exception, match=said):
        space.patch(change)


def test_a_rollouts_lost_node_is_replaced_by_another_and_the_trainer_stays(
    space: Namespace,
) -> None:
    before = start(
        space, resources=pools_apart(), rollout={"replicas": 2},
        failurePolicy={"nodeLostSeconds": 3},
    )  # fmt: skip
    trainers = uids(space, "-trainer-")
    lost = space.get("pod", pod_of(space, "rollout"))["spec"]["nodeName"]

    with silent(space.cluster, lost):
        degraded = space.wait_for_reason("Degraded", Reason.NODE_LOST)
        assert lost in degraded["message"]
        eventually(
            lambda: lost not in nodes_of(space, "-rollout-") and len(uids(space)) == len(before),
            what="the rollouts are elsewhere",
        )
        space.wait_for_phase("Running")
        assert uids(space, "-trainer-") == trainers
        assert COORDINATOR in uids(space)
        assert f"{lost} does not answer" in tells(space, EventReason.REPLANNED)


def pools_apart() -> dict[str, Any]:
    """Trainers find room on the A100s, rollouts on any of the fleet."""
    return {}


def nodes_of(space: Namespace, word: str) -> set[str]:
    return {
        each["spec"].get("nodeName", "")
        for each in space.get("pods")["items"]
        if word in each["metadata"]["name"]
    }


class silent:  # noqa: N801  # reads as a word at its use
    """A node whose kubelet does not answer, until the block ends."""

    def __init__(self, cluster: Cluster, node: str) -> None:
        self._cluster, self._node = cluster, node

    def __enter__(self) -> None:
        self._cluster.kubectl("annotate", "node", self._node, "kwok.x-k8s.io/node-")
        self._say("Unknown")

    def __exit__(self, *_: object) -> None:
        self._cluster.kubectl("annotate", "node", self._node, "kwok.x-k8s.io/node=fake")
        self._say("True")

    def _say(self, status: str) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ready = {
            "type": "Ready", "status": status, "reason": "Test", "lastTransitionTime": now,
            "lastHeartbeatTime": now,
        }  # fmt: skip
        self._cluster.kubectl(
            "patch", "node", self._node, "--subresource=status", "--type=strategic",
            "-p", json.dumps({"status": {"conditions": [ready]}}),
        )  # fmt: skip
