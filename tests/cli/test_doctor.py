"""`hetrl doctor` on facts alone."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hetrl_cli.cluster.connection import Refused
from hetrl_cli.doctor.command import diagnosis
from hetrl_cli.doctor.facts import Facts, JobFacts
from hetrl_cli.doctor.installation import own_fields
from tests.api.objects import a_job

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
NODE = {
    "metadata": {"name": "good", "labels": {"nvidia.com/gpu.product": "NVIDIA-L4"}},
    "status": {"allocatable": {"nvidia.com/gpu": "8"}},
}
HEALTHY = Facts(
    server_time=NOW,
    asked_at=NOW,
    fields=own_fields(),
    nodes=(NODE,),
    leases=(),
    storage_classes=(),
    operators=({"metadata": {"name": "operator"}},),
)


def said(facts: Facts) -> str:
    return "\n".join(each.said for each in diagnosis(facts))


def test_doctor_finds_nothing_where_nothing_is_wrong() -> None:
    assert diagnosis(HEALTHY) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param({"fields": None}, "knows no HetRLJob", id="no kinds"),
        pytest.param(
            {"fields": own_fields() - {"spec.data.regex", "spec.data.regex.pattern"}},
            "has no spec.data.regex",
            id="old kinds",
        ),
        pytest.param({"missing_rights": ("create hetrljobs",)}, "may not create", id="rights"),
        pytest.param({"operators": ()}, "no pod of the operator", id="no operator"),
        pytest.param({"asked_at": NOW - timedelta(minutes=2)}, "120 s ahead of", id="a clock"),
        pytest.param({"nodes": ()}, "none of 0 nodes has nvidia.com/gpu", id="no nodes"),
    ],
)
def test_causes_are_each_named(change: Mapping[str, Any], expected: str) -> None:
    assert expected in said(replace(HEALTHY, **change))


def test_kinds_whose_schema_is_not_published_yet_are_not_judged() -> None:
    unpublished = Refused(status=404, said="its schema is not published")
    assert diagnosis(replace(HEALTHY, fields=unpublished)) == []


def test_problems_come_before_notes() -> None:
    cordoned = NODE | {
        "metadata": {**NODE["metadata"], "name": "away"},
        "spec": {"unschedulable": True},
    }
    found = diagnosis(replace(HEALTHY, nodes=(cordoned, NODE), operators=()))
    assert [each.weight for each in found] == ["problem", "note"]


def test_coordinator_that_is_silent_while_the_job_runs_is_found() -> None:
    status = {
        "phase": "Running",
        "progress": {"lastUpdateTime": (NOW - timedelta(minutes=5)).isoformat()},
    }
    assert "no progress was reported for 5m" in said(
        replace(HEALTHY, job=JobFacts(job=a_job() | {"status": status}))
    )


def a_pod_of_the_job(**status: Any) -> dict[str, Any]:
    """A trainer's pod that is pinned to a machine."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a100-0"]}]}
    required = {"nodeSelectorTerms": [term]}
    return {
        "metadata": {
            "name": "math-trainer-0",
            "uid": "u",
            "creationTimestamp": NOW.isoformat(),
            "ownerReferences": [
                {"kind": "StatefulSet", "name": "math-trainer", "uid": "s", "controller": True}
            ],
            "labels": {
                "hetrl.dev/role": "trainer",
                "hetrl.dev/pod-set": "trainer",
                "hetrl.dev/job-name": "math",
            },
        },
        "spec": {
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
            }
        },
        "status": status,
    }


def unschedulable(message: str) -> dict[str, Any]:
    return a_pod_of_the_job(
        conditions=[
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": message,
                "lastTransitionTime": NOW.isoformat(),
            },
        ]
    )


NO_GPUS = "0/6 nodes are available: 1 Insufficient nvidia.com/gpu."


@pytest.mark.parametrize(
    ("mode", "remedy"),
    [
        ("Auto", "the operator plans the job without a100-0 after 10 s or some more; "),
        ("Manual", "spec.planning.mode Manual keeps the plan: make room, or name another plan; "),
    ],
)
def test_machine_without_room_is_named_with_the_action_taken(mode: str, remedy: str) -> None:
    job = a_job({"spec.planning": {"mode": mode}})
    facts = replace(HEALTHY, job=JobFacts(job=job, pods=(unschedulable(NO_GPUS),)))

    (found,) = [each for each in diagnosis(facts) if each.about == "room"]

    assert found.said == "a100-0 has no room for math-trainer-0: 1 Insufficient nvidia.com/gpu"
    assert found.remedy.startswith(remedy)
    assert "spec.nodeName=a100-0 lists what runs there" in found.remedy


def test_missing_claim_is_not_taken_for_a_machine_without_room() -> None:
    pod = unschedulable('0/6 nodes are available: persistentvolumeclaim "x" not found.')

    assert "has no room" not in said(replace(HEALTHY, job=JobFacts(job=a_job(), pods=(pod,))))


NO_IMAGE = {"waiting": {"reason": "ImagePullBackOff", "message": "denied"}}


@pytest.mark.parametrize(
    ("container", "about", "expected"),
    [
        ("trainer", "images", "math-trainer-0 has no image: ImagePullBackOff of x: denied"),
        (
            "istio-proxy",
            "sidecars",
            "math-trainer-0 waits for containers that are not the "
            "job's: container istio-proxy: ImagePullBackOff, denied",
        ),
    ],
)
def test_container_without_image_is_attributed_to_job_or_others(
    container: str, about: str, expected: str
) -> None:
    status = {"name": container, "image": "x", "ready": False, "state": NO_IMAGE}
    pod = a_pod_of_the_job(containerStatuses=[status])

    found = diagnosis(replace(HEALTHY, job=JobFacts(job=a_job(), pods=(pod,))))

    said = [(each.about, each.said) for each in found if each.about in {"images", "sidecars"}]
    assert said == [(about, expected)]


@pytest.mark.parametrize(("container", "is_found"), [("trainer", True), ("log-agent", False)])
def test_full_disk_is_the_jobs_where_its_container_met_it(
    container: str, *, is_found: bool
) -> None:
    state = {"terminated": {"exitCode": 1, "message": "No space left on device"}}
    pod = a_pod_of_the_job(containerStatuses=[{"name": container, "state": state}])

    found = said(replace(HEALTHY, job=JobFacts(job=a_job(), pods=(pod,))))

    assert ("math-trainer-0 met a full disk" in found) is is_found


def a_queue(name: str, *, message: str = "") -> dict[str, Any]:
    active = {"type": "Active", "status": "False" if message else "True", "message": message}
    return {
        "metadata": {"name": name},
        "spec": {"clusterQueue": "gpus"},
        "status": {"conditions": [active]},
    }


def a_queued_job(*conditions: str) -> dict[str, Any]:
    status = {"conditions": [{"type": each, "status": "True"} for each in conditions]}
    changes = {"metadata.labels": {"kueue.x-k8s.io/queue-name": "team"}}
    return a_job(changes | {"metadata.namespace": "ward"}) | {"status": status}


@pytest.mark.parametrize(
    ("queues", "conditions", "expected"),
    [
        pytest.param(
            Refused(status=404, said="not found"),
            (),
            "the cluster has no Kueue",
            id="no Kueue",
        ),
        pytest.param(
            (a_queue("b"), a_queue("a")),
            (),
            "LocalQueue team does not exist in ward; there are a, b",
            id="another's name",
        ),
        pytest.param((), (), "LocalQueue team does not exist in ward; there is none", id="none"),
        pytest.param(
            (a_queue("team", message="clusterQueue gpus does not exist"),),
            (),
            "LocalQueue team admits no jobs: clusterQueue gpus does not exist",
            id="inactive",
        ),
        pytest.param(
            (a_queue("team"),),
            ("ResourcesCreated",),
            "the operator takes no notice of queues",
            id="an operator that does not look",
        ),
    ],
)
def test_queue_problem_of_a_job_is_named(
    queues: tuple[dict[str, Any], ...] | Refused, conditions: tuple[str, ...], expected: str
) -> None:
    job = JobFacts(job=a_queued_job(*conditions), queues=queues)
    assert expected in said(replace(HEALTHY, job=job))


@pytest.mark.parametrize(
    ("queues", "conditions"),
    [
        pytest.param((a_queue("team"),), (), id="waiting"),
        pytest.param((a_queue("team"),), ("ResourcesCreated", "QuotaReserved"), id="admitted"),
        pytest.param(
            Refused(status=403, said="you may not list localqueues"), (), id="not to be seen"
        ),
    ],
)
def test_queue_that_works_or_cannot_be_seen_is_no_finding(
    queues: tuple[dict[str, Any], ...] | Refused, conditions: tuple[str, ...]
) -> None:
    job = JobFacts(job=a_queued_job(*conditions), queues=queues)
    found = diagnosis(replace(HEALTHY, job=job))
    assert [each for each in found if each.about == "queue"] == []


# On a real API server.
