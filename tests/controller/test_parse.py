"""Parsing of Kubernetes objects: unreadable ones become messages, not exceptions."""

import math
from typing import Any

import pytest

from hetrl_core.plan.plan import Plan
from hetrl_core.task import Role
from hetrl_operator.model import parse
from hetrl_operator.model.labels import plan_name
from hetrl_operator.model.planning import PlanSeen, UnreadablePlan
from hetrl_operator.model.pods import trouble
from hetrl_operator.render import plan_manifest
from tests.controller.values import NOW, a_job, a_job_object, a_plan


def a_pod_object(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "math-rollout-l4-0-11",
            "uid": "u",
            "namespace": "default",
            "creationTimestamp": "2026-01-31T12:00:00Z",
            "ownerReferences": [
                {
                    "kind": "StatefulSet",
                    "name": "math-rollout-l4-0",
                    "uid": "s",
                    "controller": True,
                }
            ],
            "labels": {
                "hetrl.dev/role": "rollout",
                "hetrl.dev/pod-set": "rollout-l4-0",
                "hetrl.dev/job-name": "math",
            },
        },
        "spec": {"schedulingGates": [{"name": "hetrl.dev/gang"}]},
        "status": status,
    }


def test_pod_is_known_by_its_labels_and_number() -> None:
    pod = parse.pod_seen(a_pod_object())

    assert pod
    assert (pod.role, pod.pod_set, pod.ordinal) == (Role.ROLLOUT, "rollout-l4-0", 11)
    assert pod.is_gated
    assert not pod.is_ready


def test_pod_of_another_owner_is_ignored() -> None:
    body = a_pod_object()
    body["metadata"]["labels"] = {"app": "web"}

    assert parse.pod_seen(body) is None


OWNER = {"kind": "StatefulSet", "name": "math-rollout-l4-0", "uid": "s", "controller": True}


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "sums-trainer-0-wd72r"},
        {"name": "math-other-0"},
        {"name": "math-rollout-l4-0-x"},
        {"ownerReferences": []},
        {"ownerReferences": [{**OWNER, "controller": False}]},
        {"ownerReferences": [{**OWNER, "kind": "ReplicaSet"}]},
        {"ownerReferences": [{**OWNER, "name": "math-rollout-l4-1"}]},
        {"name": "other-0", "ownerReferences": [{**OWNER, "name": "other"}]},
        {"labels": {"hetrl.dev/role": "captain", "hetrl.dev/pod-set": "rollout-l4-0"}},
    ],
)
def test_pod_with_our_labels_but_another_set_is_ignored(changes: dict[str, Any]) -> None:
    body = a_pod_object()
    body["metadata"] |= changes

    assert parse.pod_seen(body) is None


@pytest.mark.parametrize(
    ("status", "words"),
    [
        pytest.param(
            {
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": 'persistentvolumeclaim "x" not found',
                    }
                ]
            },
            'Unschedulable, persistentvolumeclaim "x" not found',
            id="unschedulable",
        ),
        pytest.param(
            {
                "containerStatuses": [
                    {
                        "name": "rollout",
                        "state": {
                            "waiting": {"reason": "ImagePullBackOff", "message": "no such image"}
                        },
                    }
                ]
            },
            "ImagePullBackOff, no such image",
            id="image",
        ),
        pytest.param(
            {
                "containerStatuses": [
                    {
                        "name": "rollout",
                        "restartCount": 2,
                        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                        "lastState": {
                            "terminated": {
                                "exitCode": 137,
                                "message": "step 3\nKilled",
                                "finishedAt": "2026-01-31T12:01:00Z",
                            }
                        },
                    }
                ]
            },
            "CrashLoopBackOff, ended with 137, Killed",
            id="crash-loop",
        ),
        pytest.param({}, "started, not ready yet", id="nothing-known"),
    ],
)
def test_waiting_reason_of_a_pod_is_in_kubernetes_words(status: dict[str, Any], words: str) -> None:
    body = a_pod_object(**status)
    body["spec"] = {}
    pod = parse.pod_seen(body)

    assert pod
    assert trouble(pod) == words


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        pytest.param({"training": {"steps": 0}}, "spec.training.steps", id="limit"),
        pytest.param({"nonsense": 1}, "spec.nonsense", id="unknown-field"),
        pytest.param(
            {"data": {"reward": "regex", "regex": {"pattern": "a{4294967295}"}}},
            "spec.data.regex.pattern is not a regular expression",
            id="overflow",
        ),
    ],
)
def test_unsupported_spec_gives_a_problem(spec: dict[str, Any], said: str) -> None:
    job = parse.job_seen(a_job_object(**spec))

    assert job.parsed is None
    assert said in job.problem


def test_spec_whose_reader_fails_gives_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a\nline")

    monkeypatch.setattr("hetrl_operator.model.parse_spec.to_spec", fails)
    job = a_job_object()
    job["metadata"]["name"] = "unread"

    seen = parse.job_seen(job)

    assert (seen.parsed, seen.problem) == (
        None,
        "the spec cannot be read: ZeroDivisionError: a\\nline",
    )


def test_status_that_we_cannot_read_counts_as_empty() -> None:
    body = a_job_object() | {"status": {"phase": "FromAnotherRelease"}}

    assert parse.job_seen(body).status.phase is None


def test_plan_is_read_back_as_it_was_written() -> None:
    job, plan = a_job(), a_plan(trainers=3, rollouts=("l4-0", "l4-1"))
    manifest = a_stored_plan(plan)

    seen = parse.plan_seen(manifest)

    assert isinstance(seen, PlanSeen)
    assert (seen.plan, seen.planned_for, seen.key) == (plan, "s", "k" * 32)
    assert seen.made_for == job.uid
    assert not seen.is_past
    assert parse.key_of_plan(manifest) == ("default", "math")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"annotations": {}}, id="of-its-own"),
        pytest.param({"name": "math-mine"}, id="a-copy-of-ours"),
        pytest.param({"labels": {}}, id="without-labels"),
        pytest.param({"ownerReferences": []}, id="a-copy-under-a-name-that-we-give"),
    ],
)
def test_plan_of_another_writer_belongs_to_no_job(changes: dict[str, Any]) -> None:
    manifest = a_stored_plan(a_plan(), **changes)

    seen = parse.plan_seen(manifest)

    assert isinstance(seen, PlanSeen)
    assert (seen.made_for, seen.planned_for) == ("", "")
    assert parse.key_of_plan(manifest) == ("default", "")


def test_malformed_plan_says_why() -> None:
    manifest = a_stored_plan(a_plan(), name="mine")
    manifest["spec"]["groups"][0]["replicas"] = 9

    seen = parse.plan_seen(manifest)

    assert isinstance(seen, UnreadablePlan)
    assert seen.problem == "spec.groups[0].placements must place 9 replicas, got 1"


def test_plan_of_billions_of_machines_is_refused_before_expansion() -> None:
    manifest = a_stored_plan(a_plan(), name="mine")
    (placement,) = manifest["spec"]["groups"][0]["placements"]
    ranges = ",".join(["00000-99999"] * 300)
    placement["runs"] = [{"machines": f"a[{ranges}]", "times": 1024}]

    seen = parse.plan_seen(manifest)

    assert isinstance(seen, UnreadablePlan)
    assert seen.problem.startswith("spec.groups must name at most 100000 machines")
    assert "got 30720000002" in seen.problem


def a_stored_plan(plan: Plan, **metadata: Any) -> dict[str, Any]:
    """A HetRLPlan of the operator's, as the API server stores it, with some metadata replaced."""
    key = "k" * 32
    made = plan_manifest(a_job(), plan, key=key, spec_key="s", name=plan_name("math", key))
    stored = {"uid": "u", "creationTimestamp": NOW.isoformat(), **metadata}
    return {**made, "metadata": {**made["metadata"], **stored}}


def test_report_is_read_as_protobuf_writes_it() -> None:
    report: dict[str, Any] = {"step": "3", "total_steps": "10", "version": "3", "reward_mean": 0.25}
    report["notices"] = ["x" * 2000]

    seen = parse.progress_seen(report, at=NOW)

    assert seen.notices == ("x" * 1021 + "...",)

    assert (seen.step, seen.total_steps, seen.reward, seen.finished) == (3, 10, 0.25, False)


@pytest.mark.parametrize(
    "report",
    [
        {},
        {"step": "many", "total_steps": 1},
        {"step": None},
        {"step": 1, "total_steps": 1, "notices": 7},
        {"step": math.inf, "total_steps": 10},
        {"step": math.nan, "total_steps": 10},
        {"step": -1, "total_steps": 10},
        {"step": 10**30, "total_steps": 10},
        {"step": 3, "total_steps": 10, "reward_mean": math.nan},
        {"step": 3, "total_steps": 10, "samples_per_second": math.inf},
        {"step": 3, "total_steps": 10, "eta_seconds": "1e999"},
        {"step": 3, "total_steps": 10, "staleness_p95": [10**400]},
        {"step": 3, "total_steps": 10, "staleness_p95": 10**400},
    ],
)
def test_malformed_report_is_refused(report: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"progress report|invalid literal|NaN to integer|must be"):
        parse.progress_seen(report, at=NOW)


@pytest.mark.parametrize("report", [None, 7, "step", [], [1]])
def test_report_that_is_no_object_is_refused(report: Any) -> None:
    with pytest.raises(ValueError, match="progress report"):
        parse.progress_seen(report, at=NOW)


def test_texts_of_a_report_are_on_one_line() -> None:
    report = {"step": 1, "total_steps": 2, "message": "a\nINFO forged \x1b[2J", "reason": "R" * 999}

    seen = parse.progress_seen(report, at=NOW)

    assert (seen.message, len(seen.reason)) == ("a\\nINFO forged \\x1b[2J", 64)


def test_node_keeps_only_what_planning_reads() -> None:
    node = parse.slim_node(
        {
            "metadata": {
                "name": "n",
                "labels": {"a": "b"},
                "annotations": {"hetrl.dev/leaving": "", "many": "others"},
                "managedFields": [1],
            },
            "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}], "podCIDR": "x"},
            "status": {
                "allocatable": {"cpu": "1", "nvidia.com/gpu": "8"},
                "conditions": [
                    {
                        "type": "Ready",
                        "status": "True",
                        "lastHeartbeatTime": "now",
                        "lastTransitionTime": "then",
                    },
                    {"type": "DiskPressure", "status": "False"},
                ],
                "images": ["many"],
            },
        }
    )

    assert node == {
        "metadata": {
            "name": "n",
            "labels": {"a": "b"},
            "annotations": {"hetrl.dev/leaving": ""},
            "deletionTimestamp": None,
        },
        "spec": {
            "unschedulable": False,
            "taints": [{"key": "k", "value": "", "effect": "NoSchedule"}],
        },
        "status": {
            "allocatable": {"nvidia.com/gpu": "8"},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "then"}],
        },
    }


def test_pod_says_where_it_may_go_until_it_is_bound() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["l4-0"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    body = a_pod_object()
    body["spec"] |= {"affinity": {"nodeAffinity": required}}

    waiting = parse.pod_seen(body)
    assert waiting
    assert waiting.may_be_on("l4-0", hostname="l4-0")
    assert not waiting.may_be_on("l4-1", hostname="l4-1")
    body["spec"] |= {"nodeName": "l4-0"}
    bound = parse.pod_seen(body)
    assert bound
    assert bound.may_be_on("l4-0", hostname="anything")
    assert not bound.may_be_on("l4-1", hostname="l4-1")


def test_pod_is_pinned_to_the_host_of_its_removed_gate() -> None:
    body = a_pod_object()
    body["spec"] |= {"nodeSelector": {"kubernetes.io/hostname": "host-0"}}

    pod = parse.pod_seen(body)

    assert pod
    assert pod.may_be_on("l4-0", hostname="host-0")
    assert not pod.may_be_on("l4-0", hostname="host-1")


def test_pod_that_kubernetes_ended_whole_counts_as_ended() -> None:
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-31T12:02:00Z"}
    pod = parse.pod_seen(
        a_pod_object(phase="Failed", reason="Evicted", message="out of memory", conditions=[ready])
    )

    assert pod
    assert pod.termination
    assert (pod.termination.reason, pod.termination.exit_code) == ("Evicted", 137)


@pytest.mark.parametrize(
    ("status", "is_lost"), [("True", False), ("False", True), ("Unknown", True)]
)
def test_node_is_lost_since_it_stopped_to_answer(status: str, is_lost: bool) -> None:
    at = "2026-01-31T12:00:00Z"
    ready = {"type": "Ready", "status": status, "lastTransitionTime": at}
    node = parse.slim_node({"metadata": {"name": "n"}, "status": {"conditions": [ready]}})

    assert (parse.lost_since(node) is not None) == is_lost
