"""Workloads as Kueue leaves them, for tests of decisions: what a queue would say."""

from dataclasses import replace
from typing import Any

from hetrl_operator.model.actions import (
    Action,
    Delete,
    RequeueWorkload,
    SubmitWorkload,
    UpdateWorkloadStatus,
)
from hetrl_operator.model.kueue.admission import QueueingSeen, WorkloadSeen, workload_seen
from hetrl_operator.model.kueue.api import PRIORITY_LABEL, QUEUE_LABEL
from hetrl_operator.model.observed import JobSeen
from hetrl_operator.model.parse import job_seen
from tests.controller.values import a_job_object

SERVED = QueueingSeen(off="")
"""Kueue is there, and no Workload."""


def a_queued_job(*, priority: str = "", **spec: Any) -> JobSeen:
    """A job that names a LocalQueue."""
    body = a_job_object(**spec)
    body["metadata"]["labels"] = {QUEUE_LABEL: "team"} | (
        {PRIORITY_LABEL: priority} if priority else {}
    )
    return job_seen(body)


class Queue:
    """What stands in for Kueue: it keeps one Workload as the API server would."""

    def __init__(self) -> None:
        """Begin with no Workload."""
        self.body: dict[str, Any] | None = None
        self.num_made = 0
        self.labels: dict[str, dict[str, str]] = {}

    @property
    def workload(self) -> WorkloadSeen | None:
        """The Workload as the operator sees it."""
        return workload_seen(self.body) if self.body else None

    def seen(self) -> QueueingSeen:
        """What the operator sees of the queue."""
        return replace(SERVED, workload=self.workload, machine_labels=self.labels)

    def apply(self, action: Action) -> None:
        """Do what an action asks of the Workload."""
        match action:
            case SubmitWorkload(manifest=manifest):
                assert self.body is None, "a Workload of that name is there"
                self.num_made += 1
                metadata = {**manifest["metadata"], "uid": f"workload-{self.num_made}"}
                self.body = {**manifest, "metadata": metadata, "status": {"conditions": []}}
            case RequeueWorkload(conditions=conditions):
                assert self.body
                self.body["status"] = {"conditions": list(conditions)}
            case UpdateWorkloadStatus(conditions=conditions):
                for each in conditions:
                    self._set(dict(each))
            case Delete(kind="Workload", uid=uid):
                assert self.body
                assert self.body["metadata"]["uid"] == uid
                self.body = None
            case _:
                raise AssertionError(f"not about a Workload: {action}")

    def admit(self) -> None:
        """Reserve quota, and let the job run."""
        assert self.body
        self.body["status"]["admission"] = {"clusterQueue": "cluster"}
        self.say("QuotaReserved", reason="QuotaReserved")
        self.say("Admitted", reason="Admitted")
        self.say("Evicted", holds=False, reason="QuotaReserved")

    def evict(self, reason: str = "Preempted", message: str = "for a job of more weight") -> None:
        """Want the quota back."""
        self.say("Evicted", reason=reason, message=message)

    def deactivate(self) -> None:
        """Deactivate the Workload, so that it is not admitted any more."""
        assert self.body
        self.body["spec"]["active"] = False
        self.evict("Deactivated", "The workload is deactivated")

    def say(self, type_: str, *, reason: str, holds: bool = True, message: str = "") -> None:
        """Write a condition."""
        self._set(
            {
                "type": type_,
                "status": "True" if holds else "False",
                "reason": reason,
                "message": message,
                "lastTransitionTime": "2026-01-31T12:00:00Z",
            }
        )

    def _set(self, condition: dict[str, Any]) -> None:
        assert self.body
        others = [
            each for each in self.body["status"]["conditions"] if each["type"] != condition["type"]
        ]
        self.body["status"]["conditions"] = [*others, condition]
