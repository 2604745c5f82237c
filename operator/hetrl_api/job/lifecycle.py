"""`spec.failurePolicy` and `spec.scheduling`: what a job does when it fails, and who admits it."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from hetrl_api.job.source import ObjectName
from hetrl_api.validation.rules import ApiModel, Rule, not_yet


class FailureAction(StrEnum):
    """What follows a failure."""

    RESTART_POD = "RestartPod"
    RESTART_ROLE = "RestartRole"
    RESTART_JOB = "RestartJob"
    REPLAN = "Replan"
    FAIL = "Fail"


class FailedRole(StrEnum):
    """Whose failure a rule is about."""

    TRAINER = "trainer"
    ROLLOUT = "rollout"
    COORDINATOR = "coordinator"
    INFERENCE = "inference"


class FailureReason(StrEnum):
    """How a pod failed, where it is more than an exit code."""

    OOM_KILLED = "OOMKilled"
    EVICTED = "Evicted"
    POD_LOST = "PodLost"


Restarts = Annotated[int, Field(ge=0, le=1000)]
MOST_WITHIN_A_WINDOW = 100
"""Restarts whose times status keeps; a limit within a window cannot be larger."""


class FailureRule(ApiModel):
    """What follows the failure of one role's pods. Of several rules the first that fits counts."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=63)] | None = None
    """What events and conditions call the rule; unset: its place in the list."""

    role: FailedRole
    """Whose failure."""

    action: FailureAction
    """RestartPod: the container starts again where it is. RestartRole: all pods of the role are
    replaced, a trainer's from the last checkpoint. RestartJob: all pods. Replan: the role's, on
    another plan if there is a better one now. Fail: the job fails. A trainer of several pods is
    always restarted whole."""

    on_exit_codes: Annotated[
        tuple[Annotated[int, Field(ge=1, le=255)], ...], Field(max_length=16)
    ] = ()
    """Only for these exit codes; none: all."""

    on_reasons: Annotated[tuple[FailureReason, ...], Field(max_length=8)] = ()
    """Only for these reasons; none: all. PodLost, among several trainer pods: one was deleted, or
    went with its node."""

    max_restarts: Restarts | None = None
    """Restarts by this rule before the job fails, within `windowSeconds` of the policy; unset: they
    count towards the policy's `maxRestarts`, those of rollouts and inference workers towards
    nothing."""


class FailurePolicy(ApiModel):
    """When failures end the job. Lost rollouts and inference workers never do: others are asked."""

    max_restarts: Restarts = 3
    """Restarts of trainers and of the coordinator together before the job fails."""

    window_seconds: Annotated[int, Field(ge=1, le=31_536_000)] | None = None
    """Only restarts of the last so many seconds count; unset: all since the job's creation."""

    node_lost_seconds: Annotated[int, Field(ge=1, le=86_400)] = 300
    """After a node has been gone or not ready for so long, the job's pods there are replaced, on
    other machines where the node stays away."""

    rules_by_role: Annotated[tuple[FailureRule, ...], Field(max_length=16)] | None = Field(
        default=None, alias="rules"
    )
    """Exceptions by role, exit code and reason."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            condition=f"!has(self.windowSeconds) || self.maxRestarts <= {MOST_WITHIN_A_WINDOW}",
            message=(
                "spec.failurePolicy.maxRestarts must be <= "
                f"{MOST_WITHIN_A_WINDOW} with windowSeconds, got {{}}"
            ),
            values=("self.maxRestarts",),
            field=".maxRestarts",
        ),
        Rule(
            condition=(
                "!has(self.rules) || self.rules.all(each, !has(each.maxRestarts) || "
                f"each.maxRestarts <= {MOST_WITHIN_A_WINDOW})"
            ),
            message=f"spec.failurePolicy.rules.maxRestarts must be <= {MOST_WITHIN_A_WINDOW}",
            field=".rules",
        ),
    )


class Gang(ApiModel):
    """Start all pods together through a gang scheduler."""

    provider: Annotated[str, Field(min_length=1, max_length=63)]
    """The scheduler."""


class Scheduling(ApiModel):
    """Who admits the job's pods."""

    queue: ObjectName | None = None
    """Queue of a batch scheduler. Not supported yet."""

    priority_class_name: ObjectName | None = None
    """Of every pod."""

    gang: Gang | None = None
    """A gang scheduler. Not supported yet: pods are gated and released together."""

    rules: ClassVar[tuple[Rule, ...]] = (
        not_yet(
            "spec.scheduling.queue",
            path="self.queue",
            instead="a LocalQueue of Kueue is named by the label kueue.x-k8s.io/queue-name",
        ),
        not_yet(
            "spec.scheduling.gang",
            path="self.gang",
            instead="pods are gated and released together",
        ),
    )
