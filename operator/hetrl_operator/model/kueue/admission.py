"""The observed Workload of a job in a Kueue queue, as a frozen value.

``render.kueue_workload`` renders Workloads, and ``decide.kueue.queueing`` decides about them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from hetrl_operator.model.kueue.api import ConditionType
from hetrl_operator.model.labels import SPEC_HASH

NOT_STARTED = "the operator was started without Kueue (kueue.enabled of the chart)"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadCondition:
    """One condition of a Workload."""

    type: str
    holds: bool
    reason: str
    message: str = ""
    since: datetime
    generation: int = 0

    def body(self) -> dict[str, Any]:
        """Return it as JSON of the API."""
        return {
            "type": self.type,
            "status": "True" if self.holds else "False",
            "reason": self.reason,
            "message": self.message,
            "lastTransitionTime": self.since.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "observedGeneration": self.generation,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSeen:
    """A Workload that was made for a job."""

    name: str
    uid: str
    owner_uid: str
    resource_version: str
    generation: int = 1
    queue: str
    counts: Mapping[tuple[str, str], int]
    """Requested pods of each pod set, by its name and the digest of its pods."""

    is_active: bool = True
    """Whether it may be admitted; Kueue or a user may have deactivated it."""

    cluster_queue: str = ""
    """The ClusterQueue that holds quota for it; empty: none."""

    is_deleting: bool = False
    conditions: tuple[WorkloadCondition, ...] = ()

    def condition(self, type_: str) -> WorkloadCondition | None:
        """Return a condition, if it was ever set."""
        return next((each for each in self.conditions if each.type == type_), None)

    def holds(self, type_: str) -> bool:
        """Tell whether a condition is true."""
        found = self.condition(type_)
        return found is not None and found.holds

    @property
    def is_admitted(self) -> bool:
        """Whether pods may run: after an eviction they may not, though quota is still held."""
        return self.holds(ConditionType.ADMITTED) and not self.is_evicted

    @property
    def is_evicted(self) -> bool:
        """Whether Kueue wants its quota back, or got it back and has not admitted it again."""
        return self.holds(ConditionType.EVICTED)

    @property
    def holds_quota(self) -> bool:
        """Whether quota is counted as used by it."""
        if self.holds(ConditionType.FINISHED):
            return False
        return self.holds(ConditionType.QUOTA_RESERVED) or bool(self.cluster_queue)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueingSeen:
    """Whether queues are in use, and the job's Workload in its queue."""

    off: str = NOT_STARTED
    """Why queue labels are ignored; empty: they are not."""

    workload: WorkloadSeen | None = None
    machine_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Labels of the plans' machines that may distinguish Kueue's flavors."""


def workload_seen(body: Mapping[str, Any]) -> WorkloadSeen:
    """Read a Workload."""
    metadata, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    owners = metadata.get("ownerReferences") or ()
    return WorkloadSeen(
        name=metadata["name"],
        uid=metadata["uid"],
        owner_uid=next((each["uid"] for each in owners if each.get("controller")), ""),
        resource_version=metadata.get("resourceVersion", ""),
        generation=int(metadata.get("generation", 1)),
        queue=spec.get("queueName", ""),
        counts={_key(each): int(each.get("count", 1)) for each in spec.get("podSets") or ()},
        is_active=spec.get("active", True),
        cluster_queue=(status.get("admission") or {}).get("clusterQueue", ""),
        is_deleting="deletionTimestamp" in metadata,
        conditions=tuple(_condition(each) for each in status.get("conditions") or ()),
    )


def _key(pod_set: Mapping[str, Any]) -> tuple[str, str]:
    annotations = (pod_set["template"].get("metadata") or {}).get("annotations") or {}
    return pod_set["name"], annotations.get(SPEC_HASH, "")


def _condition(body: Mapping[str, Any]) -> WorkloadCondition:
    return WorkloadCondition(
        type=body["type"],
        holds=body["status"] == "True",
        reason=body.get("reason", ""),
        message=body.get("message", ""),
        since=datetime.fromisoformat(body["lastTransitionTime"]),
        generation=int(body.get("observedGeneration", 0)),
    )
