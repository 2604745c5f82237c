"""`spec.failurePolicy` and `spec.scheduling`: what a job does when it fails, and who admits it."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from hetrl_api.rules import ApiModel, Rule, not_yet
from hetrl_api.source import ObjectName


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


class FailureRule(ApiModel):
    """What follows the failure of one role's pods."""

    role: FailedRole
    """Whose failure."""

    action: FailureAction
    """What follows."""

    on_exit_codes: Annotated[
        tuple[Annotated[int, Field(ge=1, le=255)], ...], Field(max_length=16)
    ] = ()
    """Only for these exit codes; none: all."""


class FailurePolicy(ApiModel):
    """When failures end the job. Lost rollouts never do: their prompts are issued again."""

    max_restarts: Annotated[int, Field(ge=0, le=1000)] = 3
    """Restarts of trainer and coordinator containers together before the job fails."""

    rules_by_role: Annotated[tuple[FailureRule, ...], Field(max_length=16)] | None = Field(
        default=None, alias="rules"
    )
    """Exceptions by role and exit code. Not supported yet."""

    rules: ClassVar[tuple[Rule, ...]] = (
        not_yet("spec.failurePolicy.rules", path="self.rules", instead="use maxRestarts"),
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
        not_yet("spec.scheduling.queue", path="self.queue", instead="jobs are admitted at once"),
        not_yet(
            "spec.scheduling.gang",
            path="self.gang",
            instead="pods are gated and released together",
        ),
    )
