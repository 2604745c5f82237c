"""Kueue's own words: its API, its labels on a job, and the conditions of its Workloads."""

from typing import Final

GROUP: Final = "kueue.x-k8s.io"
VERSION: Final = "v1beta2"
"""The first version that names a priority class by kind; served since Kueue 0.15."""

API_VERSION: Final = f"{GROUP}/{VERSION}"
RESOURCE: Final = f"workloads.{VERSION}.{GROUP}"
PATH: Final = f"/apis/{API_VERSION}"

QUEUE_LABEL: Final = f"{GROUP}/queue-name"
"""On a job: the LocalQueue of its namespace that it waits in."""

PRIORITY_LABEL: Final = f"{GROUP}/priority-class"
"""On a job: the WorkloadPriorityClass by which queues order it."""

JOB_UID_LABEL: Final = f"{GROUP}/job-uid"
"""On a Workload: by it Kueue says in its events which job preempted which."""

MOST_POD_SETS: Final = 8
"""Pod sets of one Workload; the API server refuses more."""


class ConditionType:
    """Conditions of a Workload; Kueue writes the first five, who runs the pods the others."""

    QUOTA_RESERVED: Final = "QuotaReserved"
    ADMITTED: Final = "Admitted"
    EVICTED: Final = "Evicted"
    REQUEUED: Final = "Requeued"
    PREEMPTED: Final = "Preempted"
    PODS_READY: Final = "PodsReady"
    FINISHED: Final = "Finished"


class Reason:
    """Reasons of those conditions that mean something to us or to Kueue."""

    PREEMPTED: Final = "Preempted"
    NODE_FAILURES: Final = "NodeFailures"
    PENDING: Final = "Pending"
    NO_RESERVATION: Final = "NoReservation"
    WAIT_FOR_START: Final = "WaitForStart"
    STARTED: Final = "Started"
    WAIT_FOR_RECOVERY: Final = "WaitForRecovery"
    RECOVERED: Final = "Recovered"
    SUCCEEDED: Final = "Succeeded"
    FAILED: Final = "Failed"


QUEUED_AT_ONCE: Final = frozenset({Reason.PREEMPTED, Reason.NODE_FAILURES})
"""Evictions after which a Workload may be admitted again at once; else Kueue decides when."""
