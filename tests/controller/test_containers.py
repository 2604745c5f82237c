"""Pods with containers that others put into them: what is the job's, and what is theirs."""

from typing import Any

import pytest

from hetrl_operator.decide import decide
from hetrl_operator.model.conditions import condition
from hetrl_operator.model.observed import PodSeen
from hetrl_operator.model.parse import pod_seen
from hetrl_operator.model.pods import has_failed, trouble
from hetrl_operator.model.reasons import ConditionType, Reason
from tests.controller.values import NOW, PODS, SETTINGS, a_job, an_observation

AT = "2026-01-31T12:01:00Z"
RUNS = {"running": {"startedAt": AT}}
STARTING = {"waiting": {"reason": "PodInitializing"}}
CRASHES = {"waiting": {"reason": "CrashLoopBackOff", "message": "waits 5m"}}


def ended(code: int, message: str = "") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "message": message, "finishedAt": AT}}


def status(name: str, state: dict[str, Any], *, ready: bool = False, **more: Any) -> dict[str, Any]:
    return {"name": name, "state": state, "ready": ready, "restartCount": 0, **more}


CRASHED = status(
    "trainer", CRASHES, restartCount=7, lastState=ended(3, "reads\n/models/tiny: no such folder")
)
WELL = status("trainer", RUNS, ready=True)
STARTS = status("trainer", RUNS)
MESH, AGENT = (status(each, RUNS, ready=True) for each in ("istio-proxy", "zz-agent"))
MESH_RESTARTED = {**MESH, "restartCount": 4, "lastState": ended(255)}
MESH_CRASHES = status("istio-proxy", CRASHES, restartCount=9, lastState=ended(1, "no authority"))
MESH_ENDED = status("istio-proxy", ended(0))
MESH_NOT_READY = status("istio-proxy", RUNS)


def a_pod_with(
    *containers: dict[str, Any],
    init: tuple[dict[str, Any], ...] = (),
    native: str = "",
    ready: bool = False,
) -> PodSeen:
    """A trainer's pod, its statuses as a kubelet sorts them."""
    specs = [
        {"name": each["name"], **({"restartPolicy": "Always"} if each["name"] == native else {})}
        for each in init
    ]
    body = {
        "metadata": {
            "name": "math-trainer-a100-80gb-0-0",
            "uid": "u",
            "namespace": "default",
            "creationTimestamp": "2026-01-31T12:00:00Z",
            "ownerReferences": [
                {
                    "kind": "StatefulSet",
                    "name": "math-trainer-a100-80gb-0",
                    "uid": "s",
                    "controller": True,
                }
            ],
            "labels": {
                "hetrl.dev/role": "trainer",
                "hetrl.dev/pod-set": "trainer-a100-80gb-0",
                "hetrl.dev/job-name": "math",
            },
        },
        "spec": {"nodeName": "a100-0", "initContainers": specs},
        "status": {
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "initContainerStatuses": sorted(init, key=lambda each: str(each["name"])),
            "containerStatuses": sorted(containers, key=lambda each: str(each["name"])),
        },
    }
    pod = pod_seen(body)
    assert pod
    return pod


@pytest.mark.parametrize("others", [(), (MESH,), (AGENT,), (MESH, AGENT), (MESH_CRASHES,)])
def test_end_of_the_jobs_container_is_read_wherever_it_stands(
    others: tuple[dict[str, Any], ...],
) -> None:
    pod = a_pod_with(CRASHED, *others)

    assert (pod.restarts, pod.waiting_reason) == (7, "CrashLoopBackOff")
    assert pod.termination
    assert pod.termination.exit_code == 3
    assert has_failed(pod)
    said = "CrashLoopBackOff, waits 5m, ended with 3, /models/tiny: no such folder"
    assert trouble(pod).startswith(said)


@pytest.mark.parametrize(
    "containers",
    [
        pytest.param((WELL, MESH_RESTARTED), id="restarted"),
        pytest.param((WELL, MESH_CRASHES), id="crashes"),
        pytest.param((WELL, MESH_ENDED), id="ended"),
        pytest.param((MESH_RESTARTED,), id="the-jobs-has-no-status-yet"),
    ],
)
def test_end_of_a_sidecar_is_not_the_jobs(containers: tuple[dict[str, Any], ...]) -> None:
    pod = a_pod_with(*containers)

    assert (pod.restarts, pod.waiting_reason, pod.termination) == (0, "", None)
    assert not has_failed(pod)


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        pytest.param(a_pod_with(STARTS, MESH), "started, not ready yet", id="well"),
        pytest.param(a_pod_with(STARTS, MESH_NOT_READY), "started, not ready yet", id="both-start"),
        pytest.param(
            a_pod_with(WELL, MESH_NOT_READY),
            "started, not ready yet; container istio-proxy is not ready",
            id="not-ready",
        ),
        pytest.param(
            a_pod_with(WELL, MESH_ENDED),
            "started, not ready yet; container istio-proxy ended with 0",
            id="ended",
        ),
        pytest.param(
            a_pod_with(STARTS, MESH_CRASHES),
            "started, not ready yet; container istio-proxy: CrashLoopBackOff, waits 5m, ended with "
            "1, no authority",
            id="crashes",
        ),
        pytest.param(
            a_pod_with(
                status("trainer", STARTING),
                init=(status("istio-init", CRASHES, lastState=ended(1, "no iptables")),),
            ),
            "PodInitializing; init container istio-init: CrashLoopBackOff, waits 5m, ended with 1, "
            "no iptables",
            id="init-crashes",
        ),
        pytest.param(
            a_pod_with(status("trainer", STARTING), init=(status("fetch", RUNS),)),
            "PodInitializing; init container fetch has not ended yet",
            id="init-runs",
        ),
        pytest.param(
            a_pod_with(STARTS, init=(status("fetch", ended(0)),)),
            "started, not ready yet",
            id="init-is-done",
        ),
        pytest.param(
            a_pod_with(WELL, init=(status("vpn", RUNS),), native="vpn"),
            "started, not ready yet; container vpn is not ready",
            id="native-not-ready",
        ),
        pytest.param(
            a_pod_with(STARTS, init=(status("vpn", RUNS, ready=True),), native="vpn"),
            "started, not ready yet",
            id="native-is-well",
        ),
        pytest.param(
            a_pod_with(
                status("trainer", STARTING),
                init=(
                    status("vpn", {"waiting": {"reason": "ImagePullBackOff", "message": "none"}}),
                    status("vpn-after", STARTING),
                ),
                native="vpn",
            ),
            "PodInitializing; container vpn: ImagePullBackOff, none",
            id="native-has-no-image",
        ),
    ],
)
def test_trouble_of_a_container_is_reported_as_its_own(pod: PodSeen, said: str) -> None:
    assert trouble(pod) == said


def test_ready_pod_has_no_trouble_with_others() -> None:
    assert not a_pod_with(WELL, MESH_RESTARTED, ready=True).others_trouble


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        pytest.param(a_pod_with(WELL, MESH_CRASHES), Reason.SIDECAR_NOT_READY, id="sidecar"),
        pytest.param(
            a_pod_with({**CRASHED, "lastState": ended(1)}, MESH_CRASHES),
            Reason.CRASH_LOOP,
            id="both",
        ),
        pytest.param(a_pod_with(STARTS, MESH), Reason.STARTING, id="none"),
    ],
)
def test_trainer_that_waits_for_a_sidecar_says_so(pod: PodSeen, reason: str) -> None:
    pods = (pod, *(each for each in PODS if each.role != "trainer"))

    written = decide(an_observation(a_job(), pods=pods), NOW, SETTINGS).status

    assert written
    found = condition(written.status, ConditionType.TRAINER_READY)
    assert found
    assert found.reason == reason
