"""Every name that HetRL writes on Kubernetes objects, each with what it is for.

Labels, annotations, condition types, reasons and event reasons live here, so that a
dashboard, a selector and the code that writes them cannot drift apart.
"""

from hashlib import sha256
from typing import Final

FIELD_MANAGER: Final = "hetrl-operator"
"""Owner of the fields that we apply; also the value of ``app.kubernetes.io/managed-by``."""

GROUP: Final = "hetrl.dev"
API_VERSION: Final = "hetrl.dev/v1alpha1"

# Labels of every child.
NAME: Final = "app.kubernetes.io/name"
"""Always ``hetrl``."""

INSTANCE: Final = "app.kubernetes.io/instance"
"""The job's name, for tools that know only the recommended labels."""

COMPONENT: Final = "app.kubernetes.io/component"
"""The role, for the same tools."""

PART_OF: Final = "app.kubernetes.io/part-of"
"""Always ``hetrl``."""

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
"""What our watches select by, on the server: without it every pod of the cluster would come."""

JOB_NAME: Final = "hetrl.dev/job-name"
"""The job that an object belongs to; with the namespace, the key of our queue."""

JOB_UID: Final = "hetrl.dev/job-uid"
"""Tells the pods of a job from those of an earlier job of the same name."""

ROLE: Final = "hetrl.dev/role"
"""``coordinator``, ``trainer`` or ``rollout``; part of the immutable selectors."""

POD_SET: Final = "hetrl.dev/pod-set"
"""The pod set's name within the job; part of the immutable selectors."""

POOL: Final = "hetrl.dev/pool"
"""The GPU kind of a pod, for dashboards."""

# Annotations.
SPEC_HASH: Final = "hetrl.dev/spec-hash"
"""Digest of the manifest as we rendered it; equal digests are not written again."""

PLAN_HASH: Final = "hetrl.dev/plan-hash"
"""The plan that a pod set follows from."""

LAUNCH_HASH: Final = "hetrl.dev/launch-hash"
"""Digest of the launch contract, on the pod template: another contract is another template."""

IDENTITY: Final = "hetrl.dev/identity"
"""On the Service: digest of the names in the job's certificates. Secrets are never read, so
this is how we know that they were issued."""

PLANNED_FOR: Final = "hetrl.dev/planned-for"
"""On a HetRLPlan: digest of the planning fields of the spec that it answers."""

PLAN_KEY: Final = "hetrl.dev/plan-key"
"""On a HetRLPlan: digest of everything that it was made from, the fleet included."""

LEFT_OUT: Final = "hetrl.dev/left-out"
"""On a HetRLPlan: the nodes that could not be planned with, and why; in words, for people."""

LEADER_ADDRESS: Final = "hetrl.dev/leader-address"
"""On the Lease: where the leading replica takes reports of progress."""

GANG_GATE: Final = "hetrl.dev/gang"
"""Scheduling gate of every pod, lifted when all pods of the job exist."""


class ConditionType:
    """Condition types of a HetRLJob."""

    ACCEPTED: Final = "Accepted"
    """The spec can be worked on."""

    PLANNED: Final = "Planned"
    """A plan is chosen, and its GPUs are reserved unless the job only plans."""

    RESOURCES_CREATED: Final = "ResourcesCreated"
    """Every child object is written."""

    TRAINER_READY: Final = "TrainerReady"
    """Every trainer pod is ready."""

    ROLLOUT_READY: Final = "RolloutReady"
    """At least ``spec.rollout.minReplicas`` rollout pods are ready."""

    RUNNING: Final = "Running"
    """Coordinator, trainers and enough rollouts are ready: steps are being made."""

    SUSPENDED: Final = "Suspended"
    """No pod is left because the user asked for it."""

    DEGRADED: Final = "Degraded"
    """The job runs, but not as planned, or with a risk worth knowing."""

    COMPLETE: Final = "Complete"
    """Terminal: all steps are done."""

    FAILED: Final = "Failed"
    """Terminal: the job has ended without finishing; the reason says why."""


class Reason:
    """Reasons of conditions, and of the events that announce them."""

    VALID: Final = "Valid"
    INVALID_SPEC: Final = "InvalidSpec"

    PLAN_READY: Final = "PlanReady"
    PLANNING: Final = "Planning"
    INFEASIBLE: Final = "Infeasible"
    FLEET_OCCUPIED: Final = "FleetOccupied"
    """It would fit the fleet, were it not for GPUs that other jobs hold."""

    SOLVER_TIMEOUT: Final = "SolverTimeout"
    PLANNER_FAILED: Final = "PlannerFailed"

    CHILDREN_APPLIED: Final = "ChildrenApplied"
    APPLYING: Final = "Applying"
    CONFLICT: Final = "Conflict"
    """An object of that name belongs to someone else."""

    FORBIDDEN: Final = "Forbidden"
    QUOTA_EXCEEDED: Final = "QuotaExceeded"
    APPLY_FAILED: Final = "ApplyFailed"

    ALL_READY: Final = "AllReady"
    MIN_READY: Final = "MinReady"
    STARTING: Final = "Starting"
    UNSCHEDULABLE: Final = "Unschedulable"
    IMAGE_PULL_ERROR: Final = "ImagePullError"
    CRASH_LOOP: Final = "CrashLoop"
    NO_PODS: Final = "NoPods"

    TRAINING_IN_PROGRESS: Final = "TrainingInProgress"
    NOT_READY: Final = "NotReady"

    SUSPENDED: Final = "Suspended"
    SUSPENDING: Final = "Suspending"
    RESUMED: Final = "Resumed"

    ROLLOUT_BELOW_DESIRED: Final = "RolloutBelowDesired"
    CHECKPOINTS_NOT_DURABLE: Final = "CheckpointsNotDurable"
    PLAN_DRIFT: Final = "PlanDrift"
    """The spec's planning fields changed after the plan was adopted."""

    AS_PLANNED: Final = "AsPlanned"

    ALL_STEPS_DONE: Final = "AllStepsDone"
    NO_LEARNING_SIGNAL: Final = "NoLearningSignal"
    TRAINER_FAILED: Final = "TrainerFailed"
    ROLLOUT_FAILED: Final = "RolloutFailed"
    COORDINATOR_FAILED: Final = "CoordinatorFailed"
    BACKOFF_LIMIT_EXCEEDED: Final = "BackoffLimitExceeded"
    DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
    STARTUP_DEADLINE_EXCEEDED: Final = "StartupDeadlineExceeded"
    FINISHED: Final = "Finished"
    """Of conditions that no longer hold because the job has ended."""


class EventReason:
    """Reasons of the events on a HetRLJob, past tense or verb and object."""

    PLAN_STARTED: Final = "PlanStarted"
    PLAN_SUCCEEDED: Final = "PlanSucceeded"
    PLAN_INFEASIBLE: Final = "PlanInfeasible"
    INVALID_SPEC: Final = "InvalidHetRLJobSpec"
    FAILED_TO_APPLY: Final = "FailedToApply"
    GANG_STARTED: Final = "GangStarted"
    RUNNING: Final = "Running"
    TRAINER_RESTARTED: Final = "TrainerRestarted"
    CHECKPOINT_REQUESTED: Final = "CheckpointRequested"
    SUSPENDED: Final = "Suspended"
    RESUMED: Final = "Resumed"
    COMPLETED: Final = "Completed"
    FAILED: Final = "Failed"
    TTL_EXPIRED: Final = "TTLExpired"


_LONGEST_STATEFUL_SET_NAME = 52
"""``controller-revision-hash`` is the set's name and 11 characters more, in a label of 63."""


def child_name(job: str, suffix: str) -> str:
    """Name a child of a job: ``<job>-<suffix>``, shortened by a digest where that is too long."""
    name = f"{job}-{suffix}"
    if len(name) <= _LONGEST_STATEFUL_SET_NAME:
        return name
    digest = sha256(name.encode()).hexdigest()[:8]
    return f"{name[: _LONGEST_STATEFUL_SET_NAME - 9].rstrip('-.')}-{digest}"


def of_child(job: str, uid: str) -> dict[str, str]:
    """Return the labels that every child of a job carries."""
    return {
        NAME: "hetrl",
        INSTANCE: job,
        PART_OF: "hetrl",
        MANAGED_BY: FIELD_MANAGER,
        JOB_NAME: job,
        JOB_UID: uid,
    }
