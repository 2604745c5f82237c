"""Decisions about the pod that checks a job before it gets GPUs."""

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

from hetrl_api.job.status import PreflightStatus
from hetrl_api.job.to_core import from_architecture
from hetrl_core.job.architecture import ModelArchitecture
from hetrl_core.job.known_dimensions import known_dimensions
from hetrl_core.job.spec import ModelFiles
from hetrl_core.plan.plan import Infeasible
from hetrl_core.preflight import PreflightReport, digest_of, report_to_json, request_of
from hetrl_operator.decide import preflight
from hetrl_operator.model.actions import Apply, Delete, WriteStatus
from hetrl_operator.model.observed import Observed, PreflightPodSeen
from hetrl_operator.model.parse import job_seen, preflight_pod_seen
from hetrl_operator.model.reasons import ConditionType, Reason
from tests.controller.cluster_model import ClusterModel, reason_of
from tests.controller.queueing import Queue
from tests.controller.values import SETTINGS, a_job, a_job_object, a_plan

CHECKS = replace(SETTINGS, preflight=True)
PASSED = PreflightReport(passed=True, notes=("12 of 7,473 prompts are left out",))
FAILED = PreflightReport(passed=False, reason="ModelInvalid", message="lm_head.weight is missing")


@dataclass(slots=True, kw_only=True)
class CheckedCluster(ClusterModel):
    """A cluster with preflights and one machine."""

    machines: tuple[str, ...] = ("a100-0",)
    pod: PreflightPodSeen | None = None
    num_pods_created: int = 0

    def observe(self) -> Observed:
        seen = super(CheckedCluster, self).observe()
        return replace(seen, machines=self.machines, preflight_pod=self.pod)

    def end(self, message: str) -> None:
        """Let the pod end with a termination message."""
        assert self.pod
        self.pod = replace(self.pod, has_ended=True, message=message)

    def report(self, report: PreflightReport) -> None:
        """Let the pod end with a report."""
        self.end(report_to_json(report))

    def _apply(self, manifest: dict[str, Any]) -> None:
        if manifest["kind"] != "Pod":
            super(CheckedCluster, self)._apply(manifest)
            return
        self.num_pods_created += 1
        created = {"creationTimestamp": self.now.isoformat(), "uid": f"pod-{self.num_pods_created}"}
        self.pod = preflight_pod_seen(manifest | {"metadata": manifest["metadata"] | created})
        assert self.pod

    def _delete(self, action: Delete) -> None:
        if self.pod and (action.kind, action.uid) == ("Pod", self.pod.uid):
            self.pod = None
        else:
            super(CheckedCluster, self)._delete(action)


def a_checked_job(**spec: Any) -> CheckedCluster:
    return CheckedCluster(job=a_job(**spec), answer=a_plan(), settings=CHECKS)


def test_preflight_precedes_the_plan_and_leaves_nothing_behind() -> None:
    cluster = a_checked_job()

    cluster.settle()

    assert reason_of(cluster, ConditionType.PLANNED) == Reason.CHECKING
    assert cluster.plans == {}
    assert cluster.held is None
    cluster.report(PASSED)
    cluster.settle()
    assert reason_of(cluster, ConditionType.PLANNED) == Reason.PLAN_READY
    assert cluster.pod is None
    assert ("ConfigMap", "math-preflight") not in cluster.children
    status = cluster.job.status.preflight
    assert status
    assert status.notes == PASSED.notes


def test_preflight_that_fails_ends_the_job_with_its_reason() -> None:
    cluster = a_checked_job()
    cluster.settle()

    cluster.report(FAILED)
    cluster.settle()

    assert cluster.job.status.phase == "Failed"
    assert reason_of(cluster, ConditionType.FAILED) == "ModelInvalid"
    assert cluster.pods == {}
    assert cluster.pod is None
    assert cluster.plans == {}
    assert cluster.held is None


def test_dimensions_that_are_not_the_models_end_the_job() -> None:
    cluster = a_checked_job()
    cluster.settle()
    assert cluster.job.parsed
    given = cluster.job.parsed.spec.model.architecture
    assert given

    cluster.report(replace(PASSED, architecture=replace(given, num_layers=4)))
    cluster.settle()

    assert reason_of(cluster, ConditionType.FAILED) == "ModelInvalid"
    failed = next(each for each in cluster.job.status.conditions if each.type == "Failed")
    assert "spec.model.architecture.layers is 3, and 4 by config.json" in failed.message


HUB = {"source": {"hub": "Qwen/Qwen3-0.6B"}}


def known() -> ModelArchitecture:
    found = known_dimensions(ModelFiles(source="Qwen/Qwen3-0.6B", is_path=False))
    assert found
    return found.architecture


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param({}, (), id="as in the table"),
        pytest.param(
            {"num_layers": 4}, ("the table's layers is 28, and 4 by config.json",), id="4"
        ),
    ],
)
def test_known_hub_model_is_planned_before_its_preflight(
    changes: dict[str, int], said: tuple[str, ...]
) -> None:
    cluster = a_checked_job(model=HUB)
    cluster.settle()
    assert reason_of(cluster, ConditionType.PLANNED) == Reason.CHECKING
    assert cluster.job.parsed
    assert cluster.job.parsed.spec.model.architecture == known()

    cluster.report(replace(PASSED, architecture=replace(known(), **changes)))
    cluster.settle()

    assert reason_of(cluster, ConditionType.PLANNED) == Reason.PLAN_READY
    status = cluster.job.status.preflight
    assert status
    assert status.architecture
    assert status.architecture.layers == changes.get("num_layers", 28)
    assert [each for each in status.notes if "table" in each] == [
        f"Qwen/Qwen3-0.6B is not as in the table of known models, and is planned again: {each}"
        for each in said
    ]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        pytest.param(HUB, "as of commit c1899de289a0", id="no revision"),
        pytest.param(HUB | {"revision": "v1"}, "the job names revision v1", id="another revision"),
    ],
)
def test_plan_only_job_of_a_known_model_needs_no_pod(model: dict[str, Any], said: str) -> None:
    cluster = a_checked_job(model=model, planning={"mode": "PlanOnly"})

    cluster.settle()

    assert cluster.job.status.phase == "Planned"
    assert cluster.num_pods_created == 0
    planned = next(each for each in cluster.job.status.conditions if each.type == "Planned")
    assert said in planned.message


def test_plan_key_is_by_table_as_by_preflight() -> None:
    # Gemma has more vectors in a layer than the API's fields can say.
    model = ModelFiles(source="google/gemma-2-2b-it", is_path=False)
    body = a_job_object(model={"source": {"hub": model.source}})
    by_table = job_seen(body).parsed
    dimensions = known_dimensions(model)
    assert by_table
    assert dimensions
    checked = PreflightStatus(
        digest=digest_of(request_of(by_table.spec)),
        architecture=from_architecture(dimensions.architecture),
    )

    read = job_seen(
        body | {"status": {"preflight": checked.model_dump(mode="json", by_alias=True)}}
    )

    assert read.parsed
    assert read.parsed.spec == by_table.spec
    assert (by_table.dimensions_origin != "", read.parsed.dimensions_origin) == (True, "")


def test_job_that_fits_nowhere_is_not_checked() -> None:
    cluster = a_checked_job()
    cluster.answer = Infeasible(reasons=("no GPU has 80 GiB",))

    cluster.settle()

    assert reason_of(cluster, ConditionType.PLANNED) == Reason.INFEASIBLE
    assert cluster.num_pods_created == 0


def test_preflight_is_not_repeated_on_resume() -> None:
    cluster = a_checked_job()
    cluster.settle()
    cluster.report(PASSED)
    cluster.settle()

    cluster.change(suspend=True)
    for _ in range(3):
        cluster.settle()
        cluster.make_ready()
    cluster.change(suspend=False)
    cluster.settle()

    assert cluster.num_pods_created == 1


@pytest.mark.parametrize(
    ("spec", "num_pods"),
    [
        pytest.param({"training": {"steps": 11}}, 1, id="steps are not checked"),
        pytest.param({"data": {"prompts": {"path": "/other.jsonl"}}}, 2, id="data are"),
        pytest.param({"algorithm": {"groupSize": 4}}, 2, id="the algorithm is"),
    ],
)
def test_preflight_is_repeated_when_a_checked_field_changes(
    spec: dict[str, Any], num_pods: int
) -> None:
    cluster = a_checked_job(planning={"mode": "Auto"})
    cluster.settle()

    cluster.change(**spec)
    cluster.settle()
    cluster.report(PASSED)
    cluster.settle()

    assert cluster.num_pods_created == num_pods
    assert reason_of(cluster, ConditionType.PLANNED) == Reason.PLAN_READY


def test_running_job_is_not_checked_after_an_upgrade() -> None:
    cluster = a_checked_job()
    cluster.settings = SETTINGS
    cluster.settle()
    cluster.make_ready()
    cluster.settle()

    cluster.settings = CHECKS
    cluster.settle()

    assert cluster.job.status.phase == "Running"
    assert cluster.num_pods_created == 0


def test_lost_preflight_pods_are_replaced_until_the_last_attempt() -> None:
    cluster = a_checked_job()

    for attempt in range(1, preflight.MAX_ATTEMPTS + 1):
        cluster.settle()
        assert cluster.num_pods_created == attempt
        cluster.end("OOMKilled")
    cluster.settle()

    assert cluster.job.status.phase == "Failed"
    assert reason_of(cluster, ConditionType.FAILED) == Reason.PREFLIGHT_FAILED
    assert cluster.num_pods_created == preflight.MAX_ATTEMPTS


@pytest.mark.parametrize(
    "message",
    [
        pytest.param("", id="empty"),
        pytest.param("Traceback: no such file", id="log-lines"),
        pytest.param('{"passed": "perhaps"}', id="wrong-type"),
        pytest.param('{"passed": false, "reason": "Complete\\nFailed"}', id="forged-reason"),
        pytest.param('{"passed": true, "notes": ["' + "x" * 5000 + '"]}', id="too-long"),
        pytest.param(
            json.dumps({"passed": True, "architecture": {"hidden_size": 10**30}}),
            id="impossible-architecture",
        ),
    ],
)
def test_termination_message_that_is_no_report_passes_nothing(message: str) -> None:
    cluster = a_checked_job()
    cluster.settle()

    cluster.end(message)
    cluster.round()

    status = cluster.job.status.preflight
    assert status
    assert (status.passed_at, status.attempts) == (None, 1)


def test_preflight_that_does_not_end_fails_at_its_deadline() -> None:
    cluster = a_checked_job(startupDeadlineSeconds=60)
    cluster.settle()
    assert cluster.pod
    cluster.pod = replace(cluster.pod, waiting="ErrImagePull: no such image")
    cluster.settle()
    assert cluster.wake_after_seconds
    assert cluster.wake_after_seconds <= 60

    cluster.pass_time(seconds=61)
    cluster.settle()

    assert reason_of(cluster, ConditionType.FAILED) == Reason.PREFLIGHT_FAILED
    failed = next(each for each in cluster.job.status.conditions if each.type == "Failed")
    assert "spec.startupDeadlineSeconds" in failed.message
    assert "no such image" in failed.message


def test_preflight_waits_for_a_machine_of_the_jobs_pools() -> None:
    cluster = a_checked_job()
    cluster.machines = ()
    cluster.settle()
    assert cluster.num_pods_created == 0

    cluster.machines = ("a100-0", "a100-1")
    cluster.settle()

    assert cluster.num_pods_created == 1


def test_preflight_of_a_queued_job_precedes_its_workload() -> None:
    cluster = a_checked_job()
    cluster.queue = Queue()
    cluster.job = replace(cluster.job, queue="team")

    cluster.settle()

    assert cluster.num_pods_created == 1
    assert cluster.queue.seen().workload is None


def test_suspended_job_is_not_checked() -> None:
    cluster = a_checked_job(suspend=True)

    cluster.settle()

    assert cluster.num_pods_created == 0


def test_foreign_pod_with_forged_labels_is_neither_read_nor_deleted() -> None:
    cluster = a_checked_job()
    cluster.settle()
    assert cluster.pod
    cluster.pod = foreign = replace(cluster.pod, owner_uid="of somebody else")
    cluster.report(FAILED)

    cluster.round()

    assert cluster.job.status.phase != "Failed"
    assert cluster.pod.uid == foreign.uid


def test_architecture_is_read_from_the_preflight_of_the_same_model() -> None:
    body = a_job_object(model={"source": {"hub": "owner/name"}})
    cluster = CheckedCluster(job=job_seen(body), answer=a_plan(), settings=CHECKS)
    cluster.settle()
    known = a_job().parsed
    assert known
    cluster.report(replace(PASSED, architecture=known.spec.model.architecture))
    (written,) = (each for each in cluster.round() if isinstance(each, WriteStatus))
    status = written.status.model_dump(mode="json", by_alias=True, exclude_none=True)

    again = job_seen(body | {"status": status})
    other = job_seen(a_job_object(model={"source": {"hub": "owner/other"}}) | {"status": status})

    assert again.parsed
    assert again.parsed.spec.model.architecture == known.spec.model.architecture
    assert other.parsed
    assert other.parsed.spec.model.architecture is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param("a/b", "plans are made of it", id="like none"),
        pytest.param("Qwen/Qwen3-0.6", "similar: Qwen/Qwen3-0.6B", id="like a known one"),
    ],
)
def test_job_without_dimensions_is_invalid_where_preflights_are_off(name: str, said: str) -> None:
    cluster = CheckedCluster(job=a_job(model={"source": {"hub": name}}), answer=a_plan())

    cluster.settle()

    assert reason_of(cluster, ConditionType.ACCEPTED) == Reason.INVALID_SPEC
    accepted = next(each for each in cluster.job.status.conditions if each.type == "Accepted")
    assert said in accepted.message


def test_preflight_pod_is_restricted_and_has_no_credentials() -> None:
    cluster = a_checked_job()
    cluster.settle()

    (pod,) = (
        each.manifest
        for each in cluster.written
        if isinstance(each, Apply) and each.manifest["kind"] == "Pod"
    )

    (owner,) = pod["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (cluster.job.uid, True)
    spec = pod["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["restartPolicy"] == "Never"
    assert spec["securityContext"]["runAsNonRoot"]
    (container,) = spec["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert "nvidia.com/gpu" not in json.dumps(container["resources"])
    assert {"cpu", "memory"} <= container["resources"]["limits"].keys()
    assert not any("secret" in each for each in spec["volumes"])
    terms = spec["affinity"]["nodeAffinity"]
    assert "a100-0" in json.dumps(terms)
