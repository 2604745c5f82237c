"""`status` of a HetRLJob: what the operator saw last. Programs read conditions, people the rest."""

from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, Field, StringConstraints

from hetrl_api.job.conditions import Conditions
from hetrl_api.job.model import Architecture
from hetrl_api.validation.lists import Keyed
from hetrl_api.validation.rules import ApiModel

Count = Annotated[int, Field(ge=0)]
Text = Annotated[str, StringConstraints(max_length=1024)]


class Phase(StrEnum):
    """Where the job is, derived from its conditions for people."""

    PENDING = "Pending"
    PLANNING = "Planning"
    PLANNED = "Planned"
    QUEUED = "Queued"
    DEPLOYING = "Deploying"
    RUNNING = "Running"
    SUSPENDING = "Suspending"
    SUSPENDED = "Suspended"
    RESTARTING = "Restarting"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class PlanStatus(ApiModel):
    """Summary of the active plan."""

    name: Text
    """The HetRLPlan."""

    hash: Text
    """Of what it was made from: spec, nodes, prices, links."""

    strategy: Text | None = None
    """The search that found it."""

    predicted_step_seconds: float | None = None
    """Predicted time per policy version."""

    samples_per_second: float | None = None
    """Predicted rate."""

    dollars_per_hour: float | None = None
    """Price of its GPUs."""

    bottleneck: Text | None = None
    """What binds."""

    gap_ratio: float | None = None
    """Distance from the best bound known."""


class Progress(ApiModel):
    """How far training has come, as the coordinator reported it."""

    step: Count = 0
    """Policy versions published."""

    total_steps: Count = 0
    """Policy versions to publish."""

    samples_per_second: float | None = None
    """Trajectories consumed per second, lately."""

    policy_version: Count = 0
    """Version being trained."""

    staleness_p95: float | None = Field(default=None, alias="stalenessP95")
    """95th percentile of the staleness trained on, in versions."""

    reward: float | None = None
    """Mean reward, lately."""

    eta_seconds: float | None = None
    """Until the last step at this rate."""

    notices: Annotated[tuple[Text, ...], Field(max_length=8)] = ()
    """What to know of the data: prompts that are left out, trajectories in quarantine."""

    last_update_time: AwareDatetime | None = None
    """When this was reported."""

    last_step_time: AwareDatetime | None = None
    """When `step` was first reported."""


class Restart(ApiModel):
    """One answer to a failure or to a changed spec."""

    time: AwareDatetime
    """When it was decided; pods made before are replaced."""

    role: Text
    """Whose pods."""

    action: Text
    """RestartPod, RestartRole, RestartJob or Replan."""

    pod: Text
    """The pod that it was for."""

    failed_at: AwareDatetime
    """When that pod failed."""

    reason: Text
    """Why: how the pod ended, or SpecChanged."""

    rule: Text | None = None
    """The rule of spec.failurePolicy.rules, if one fitted."""


class LastReplan(ApiModel):
    """The result of the last search for another plan while the job ran."""

    time: AwareDatetime
    """Time of the decision."""

    plan: Text
    """The HetRLPlan that was active."""

    reason: Text
    """NodeLost, NodeLeaving, NodeFull, SpecChanged, FailureRule or FleetChanged."""

    outcome: Text
    """Adopted; Unchanged: no better plan was found; TooLittle: the gain is below
    minImprovementPercent; TooDear: the gain does not pay for the move; NoQuota: the queue has not
    admitted the additional pods; NoPlan: no plan fits; Outdated: the fleet changed during the
    search; Failed: the planner failed."""

    fleet_hash: Text | None = None
    """Digest of the nodes, prices and links that the search used."""

    message: Text
    """The gain of the other plan and the cost of the move, in figures."""


class RoleStatus(ApiModel):
    """Pods of one role."""

    replicas: Count = 0
    """Pods that should be."""

    ready_replicas: Count = 0
    """Pods that are ready."""

    summary: Text | None = None
    """Both, for people: 1/2."""


class RolloutStatus(RoleStatus):
    """Rollout replicas, and what `kubectl scale` reads."""

    summary: Text | None = None
    """Both, for people: 1/2. Where all rollout workers are in the trainers' pods, those:
    `2/2 in trainers`."""

    selector: Text | None = None
    """Label selector of the rollout pods."""


class PodSetStatus(ApiModel):
    """Pods of one pod set."""

    name: Text
    """The pod set."""

    role: Text
    """What its pods are."""

    gpu_kind: Text | None = None
    """GPUs that they have."""

    replicas: Count = 0
    """Pods that should be."""

    ready_replicas: Count = 0
    """Pods that are ready."""


class PreflightStatus(ApiModel):
    """The check of models, data and reward before the job gets GPUs."""

    digest: Text
    """Of the fields that it checks; while they stay the same it is not repeated."""

    attempts: Count = 0
    """Pods that ended without a report, as after an eviction."""

    passed_at: AwareDatetime | None = None
    """When it passed; unset: not yet."""

    notes: Annotated[tuple[Text, ...], Field(max_length=10)] = ()
    """What it found that does not stop the job, with figures."""

    architecture: Architecture | None = None
    """Dimensions that it read from the model's config.json."""


class JobStatus(ApiModel):
    """What the operator saw last."""

    observed_generation: Count | None = None
    """The generation that this is about."""

    phase: Phase | None = None
    """Where the job is, for people; programs read conditions."""

    start_time: AwareDatetime | None = None
    """When its pods were first created, since the last resume."""

    completion_time: AwareDatetime | None = None
    """When it succeeded or failed."""

    restarts: Count | None = None
    """Restarts of trainers and of the coordinator after failures so far."""

    recent_restarts: Annotated[tuple[Restart, ...], Field(max_length=100)] = ()
    """The last of them, and those that spec.failurePolicy.rules or a changed spec asked for."""

    conditions: Conditions = ()
    """What holds."""

    preflight: PreflightStatus | None = None
    """The check before the job gets GPUs."""

    plan: PlanStatus | None = None
    """The active plan."""

    last_replan: LastReplan | None = None
    """The last search for another plan while the job ran."""

    progress: Progress | None = None
    """How far training has come."""

    trainer: RoleStatus | None = None
    """Trainer pods."""

    rollout: RolloutStatus | None = None
    """Rollout pods."""

    inference: RoleStatus | None = None
    """Inference pods; unset: the plan has none."""

    pod_sets: Annotated[tuple[PodSetStatus, ...], Keyed(("name",), most=256)] = ()
    """Readiness by pod set."""
