"""Condition types, reasons and event reasons of a job, each with its meaning.

A test reaches each of them (``tests/controller/reasons.py``), and
``docs/operations/troubleshooting.md`` explains them to users. ``labels`` names objects.
"""

from typing import Final


class ConditionType:
    """Condition types of a HetRLJob."""

    ACCEPTED: Final = "Accepted"
    """The spec can be worked on."""

    PLANNED: Final = "Planned"
    """A plan is chosen, and its GPUs are reserved unless the job only plans."""

    QUOTA_RESERVED: Final = "QuotaReserved"
    """The queue that the job's label names has admitted it: its pods may run."""

    RESOURCES_CREATED: Final = "ResourcesCreated"
    """Every child object is written."""

    TRAINER_READY: Final = "TrainerReady"
    """Every trainer pod is ready."""

    ROLLOUT_READY: Final = "RolloutReady"
    """At least ``spec.rollout.minReplicas`` rollout pods are ready."""

    INFERENCE_READY: Final = "InferenceReady"
    """At least one inference pod is ready; only where the plan has such pods."""

    RUNNING: Final = "Running"
    """Coordinator, trainers and enough workers are ready: steps are being made."""

    PROGRESSING: Final = "Progressing"
    """Steps follow each other within ``spec.progressDeadlineSeconds``."""

    SUSPENDED: Final = "Suspended"
    """No pod is left because the user asked for it."""

    DEGRADED: Final = "Degraded"
    """The job runs, but not as planned, or with a risk worth knowing."""

    COMPLETE: Final = "Complete"
    """Terminal: all steps are done."""

    FAILED: Final = "Failed"
    """Terminal: the job has ended without finishing; the reason says why."""


class Reason:
    """Reasons of conditions, each with the condition that it is of, and what it says."""

    VALID: Final = "Valid"
    """Accepted: the spec can be worked on."""

    INVALID_SPEC: Final = "InvalidSpec"
    """Not Accepted: something is missing that the API server cannot check."""

    CHECKING: Final = "Checking"
    """Not Planned: a pod checks the job's models, data and reward before it gets GPUs."""

    PLAN_READY: Final = "PlanReady"
    """Planned: the plan is written, and its GPUs are the job's."""

    PLANNING: Final = "Planning"
    """Not Planned: a plan is being made or written."""

    INFEASIBLE: Final = "Infeasible"
    """Not Planned: no plan fits the fleet; tried again when the fleet changes."""

    INSUFFICIENT_FREE_GPUS: Final = "FleetOccupied"
    """Not Planned: the job fits the fleet, but other jobs hold too many GPUs."""

    SOLVER_TIMEOUT: Final = "SolverTimeout"
    """Not Planned: the planner did not end within its time; it is retried after a backoff."""

    PLANNER_FAILED: Final = "PlannerFailed"
    """Not Planned: the planner's process died or ran out of memory; retried after a backoff."""

    PLAN_NOT_FOUND: Final = "PlanNotFound"
    """Not Planned: ``spec.planning.planRef`` names a HetRLPlan that does not exist; it is waited
    for."""

    PLAN_DOES_NOT_FIT: Final = "PlanDoesNotFit"
    """Not Planned: the HetRLPlan that ``spec.planning.planRef`` names does not fit the job or the
    fleet; the message says by which field, limit and value."""

    WAITING_FOR_QUOTA: Final = "WaitingForQuota"
    """Not QuotaReserved: the job waits in its queue, and Kueue says for what."""

    ADMITTED: Final = "Admitted"
    """QuotaReserved: the queue holds quota for the job's pods."""

    PREEMPTED: Final = "Preempted"
    """Not QuotaReserved: another job gets the quota; this one stops, and waits in its queue. The
    reason stays until it is admitted again."""

    EVICTED: Final = "Evicted"
    """Not QuotaReserved: Kueue takes the quota back for another reason, which the message says.
    It stays until the job is admitted again."""

    DEACTIVATED: Final = "Deactivated"
    """Not QuotaReserved: the Workload is not active, so that Kueue will not admit it."""

    QUOTA_RETURNED: Final = "QuotaReturned"
    """Not QuotaReserved: the job is suspended or has ended, and no quota is held for it."""

    QUEUE_IGNORED: Final = "QueueIgnored"
    """Not QuotaReserved: the job names a queue, and the operator does not use Kueue."""

    QUEUED: Final = "Queued"
    """Suspended: no pod is left, and the job goes on when its queue admits it again."""

    CHILDREN_APPLIED: Final = "ChildrenApplied"
    """ResourcesCreated: every object is as it should be."""

    APPLYING: Final = "Applying"
    """Not ResourcesCreated: objects are being written."""

    CONFLICT: Final = "Conflict"
    """Not ResourcesCreated: an object of that name is about to be deleted, as one of an earlier job
    of the same name; the job continues by itself."""

    NAME_TAKEN: Final = "NameTaken"
    """Not ResourcesCreated: an object of that name is not the job's; it is left unchanged, and the
    job continues when the name is free."""

    FORBIDDEN: Final = "Forbidden"
    """Not ResourcesCreated: the operator lacks a right in this namespace."""

    QUOTA_EXCEEDED: Final = "QuotaExceeded"
    """Not ResourcesCreated: a ResourceQuota of the namespace is used up."""

    APPLY_FAILED: Final = "ApplyFailed"
    """Not ResourcesCreated: the API server refuses an object, as an admission policy may."""

    ALL_READY: Final = "AllReady"
    """TrainerReady, RolloutReady, InferenceReady: every pod is ready."""

    MIN_READY: Final = "MinReady"
    """RolloutReady, InferenceReady: not every pod is ready, but enough of them."""

    STARTING: Final = "Starting"
    """Not ready, not Running: pods are starting, and nothing is wrong with them."""

    UNSCHEDULABLE: Final = "Unschedulable"
    """Not ready: no node takes a pod."""

    IMAGE_PULL_ERROR: Final = "ImagePullError"
    """Not ready: an image cannot be had."""

    CRASH_LOOP: Final = "CrashLoop"
    """Not ready: a container ends again and again."""

    SIDECAR_NOT_READY: Final = "SidecarNotReady"
    """Not ready: a container that is not the job's, as a webhook adds them, keeps a pod from it."""

    NO_PODS: Final = "NoPods"
    """Not ready: the pods do not exist yet."""

    TRAINING_IN_PROGRESS: Final = "TrainingInProgress"
    """Running: coordinator, trainers and enough workers are ready."""

    NOT_READY: Final = "NotReady"
    """Not Running: it ran, and something that it needs is not ready any more."""

    WAITING_FOR_STEP: Final = "WaitingForStep"
    """Progressing: no step is done yet since the pods started, nor overdue."""

    STEP_ADVANCED: Final = "StepAdvanced"
    """Progressing: the last step is younger than ``spec.progressDeadlineSeconds``."""

    STALLED: Final = "Stalled"
    """Not Progressing: no step for ``spec.progressDeadlineSeconds``."""

    SUSPENDED: Final = "Suspended"
    """Suspended, and not Planned, created, ready or Running because of it."""

    SUSPENDING: Final = "Suspending"
    """Not Suspended yet: pods write a checkpoint and stop."""

    RESUMED: Final = "Resumed"
    """Not Suspended any more."""

    DELETING: Final = "Deleting"
    """Not ready, not Running: the job was deleted, and its pods stop."""

    NODE_LOST: Final = "NodeLost"
    """Degraded, not ready: a node with pods of the job is gone or does not answer."""

    ROLLOUT_BELOW_DESIRED: Final = "RolloutBelowDesired"
    """Degraded: some rollout pods are not ready."""

    INFERENCE_BELOW_DESIRED: Final = "InferenceBelowDesired"
    """Degraded: some inference pods are not ready."""

    CHECKPOINTS_NOT_DURABLE: Final = "CheckpointsNotDurable"
    """Degraded: checkpoints are lost with the trainer's pod."""

    PLAN_DRIFT: Final = "PlanDrift"
    """Degraded: the plan does not answer the spec or the fleet any more, and none does better yet;
    the message says why."""

    AS_PLANNED: Final = "AsPlanned"
    """Not Degraded."""

    ALL_STEPS_DONE: Final = "AllStepsDone"
    """Complete: ``spec.training.steps`` are done."""

    NO_LEARNING_SIGNAL: Final = "NoLearningSignal"
    """Failed: rewards never vary, so there is nothing to learn. A coordinator's word."""

    NOT_FINITE: Final = "NotFinite"
    """Failed: rewards, losses, gradients or weights were not finite, several steps in a row. A
    coordinator's word."""

    ENGINE_MISMATCH: Final = "EngineMismatch"
    """Failed: under the same weights, engine and trainer differ in their log-probabilities. A
    coordinator's word."""

    TRAINER_FAILED: Final = "TrainerFailed"
    """Failed: a trainer ended with a reason that no restart changes."""

    PREFLIGHT_FAILED: Final = "PreflightFailed"
    """Failed: the check before the job gets GPUs did not end, or ended without a report. Where it
    finds a fault, its own reason stands here, as ``ModelInvalid`` or ``DataInvalid``."""

    ROLLOUT_FAILED: Final = "RolloutFailed"
    """Failed: a rollout ended with a reason that no restart changes."""

    INFERENCE_FAILED: Final = "InferenceFailed"
    """Failed: an inference worker ended with a reason that no restart changes."""

    COORDINATOR_FAILED: Final = "CoordinatorFailed"
    """Failed: the coordinator ended with a reason that no restart changes."""

    FAILURE_POLICY: Final = "FailurePolicy"
    """Failed: a rule of ``spec.failurePolicy.rules`` says so."""

    BACKOFF_LIMIT_EXCEEDED: Final = "BackoffLimitExceeded"
    """Failed: more restarts than ``spec.failurePolicy`` allows."""

    DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
    """Failed: ``spec.activeDeadlineSeconds`` are over."""

    STARTUP_DEADLINE_EXCEEDED: Final = "StartupDeadlineExceeded"
    """Failed: not Running within ``spec.startupDeadlineSeconds``."""

    UNSCHEDULABLE_DEADLINE_EXCEEDED: Final = "UnschedulableDeadlineExceeded"
    """Failed: no GPUs within ``spec.unschedulableDeadlineSeconds``."""

    FINISHED: Final = "Finished"
    """Not ready, not Running, not Progressing: the job has ended."""


class ReplanReason:
    """Why a running job searched for another plan; a label of ``hetrl_replans_total``."""

    FAILURE_RULE: Final = "FailureRule"
    """A rule of ``spec.failurePolicy`` asks for it."""

    NODE_LOST: Final = "NodeLost"
    """A machine of the plan does not answer."""

    NODE_LEAVING: Final = "NodeLeaving"
    """A machine of the plan is about to leave, or no longer takes the job's pods."""

    NODE_FULL: Final = "NodeFull"
    """A machine of the plan has no room for a pod that is pinned to it."""

    SPEC_CHANGED: Final = "SpecChanged"
    """The planning fields of the spec changed."""

    FLEET_CHANGED: Final = "FleetChanged"
    """Nodes, prices or links changed, so a better plan may exist."""


class ReplanOutcome:
    """The result of a replan; a label of ``hetrl_replans_total``."""

    ADOPTED: Final = "Adopted"
    """The job moves to another plan."""

    UNCHANGED: Final = "Unchanged"
    """The search found the active plan again. The same fleet is not searched again."""

    TOO_LITTLE: Final = "TooLittle"
    """The gain is below ``minImprovementPercent``. The same fleet is not searched again."""

    TOO_DEAR: Final = "TooDear"
    """The gain does not pay for the move. Evaluated again after the cooldown, without a search."""

    NO_QUOTA: Final = "NoQuota"
    """The plan takes pods that the job's queue has not admitted."""

    NO_PLAN: Final = "NoPlan"
    """No plan fits. The same fleet is not searched again."""

    OUTDATED: Final = "Outdated"
    """The fleet changed during the search. Searched again after the cooldown."""

    FAILED: Final = "Failed"
    """The planner ended without an answer. Searched again after the cooldown."""


class EventReason:
    """Reasons of the events on a HetRLJob, past tense or verb and object."""

    PLAN_STARTED: Final = "PlanStarted"
    """A plan is being made."""

    PLAN_SUCCEEDED: Final = "PlanSucceeded"
    """A plan was found: what it takes and what is expected of it."""

    PLAN_INFEASIBLE: Final = "PlanInfeasible"
    """No plan was found, and why."""

    REPLANNED: Final = "Replanned"
    """A running job got another plan: what changes, why, and the cost."""

    REPLAN_REJECTED: Final = "ReplanRejected"
    """A running job keeps its plan after a search for another: the figures, or the failure."""

    INVALID_SPEC: Final = "InvalidHetRLJobSpec"
    """The spec cannot be worked on, and why."""

    FAILED_TO_APPLY: Final = "FailedToApply"
    """The API server refused an object, and why."""

    QUEUED: Final = "Queued"
    """The job waits in its queue."""

    ADMITTED: Final = "Admitted"
    """The queue has admitted the job."""

    EVICTED: Final = "Evicted"
    """The queue takes the job's quota back, and why; a checkpoint is written first."""

    QUEUE_IGNORED: Final = "QueueIgnored"
    """The job names a queue, which means nothing here, and why."""

    GANG_STARTED: Final = "GangStarted"
    """All pods exist and may be scheduled."""

    RUNNING: Final = "Running"
    """Coordinator, trainers and enough workers are ready."""

    STALLED: Final = "Stalled"
    """No step for too long."""

    TRAINER_RESTARTED: Final = "TrainerRestarted"
    """The trainers start again from the last checkpoint, and why."""

    ROLE_RESTARTED: Final = "RoleRestarted"
    """The pods of another role are replaced, and why."""

    JOB_RESTARTED: Final = "JobRestarted"
    """All pods are replaced, and why."""

    POD_REPLACED: Final = "PodReplaced"
    """One pod is replaced: stuck, misplaced, outdated or on a lost node."""

    SCALED_ROLLOUT: Final = "ScaledRollout"
    """Rollout pods are added or removed."""

    CHECKPOINT_REQUESTED: Final = "CheckpointRequested"
    """Trainers are stopped; they write a checkpoint first."""

    SUSPENDED: Final = "Suspended"
    """No pod is left."""

    RESUMED: Final = "Resumed"
    """The job goes on."""

    COMPLETED: Final = "Completed"
    """All steps are done."""

    FAILED: Final = "Failed"
    """The job has failed, and why."""

    TTL_EXPIRED: Final = "TTLExpired"
    """The finished job is deleted."""

    RELEASE_FORCED: Final = "ReleaseForced"
    """The finalizer of a deleted job was removed though pods were left."""


def words(kind: type) -> tuple[str, ...]:
    """Return every word of one of these classes."""
    return tuple(value for name, value in vars(kind).items() if name.isupper())
